"""The OpenAPI document, written by hand; tests hold it to the routes."""

from __future__ import annotations

from typing import Any

from deciban.server.routes import JSON, MAIL, MODEL_FILE, ROUTES, ApiRoute

Schema = dict[str, Any]

STRING, NUMBER, INTEGER, BOOLEAN = ({"type": kind} for kind in ("string", "number", "integer", "boolean"))
LABEL: Schema = {"type": ["string", "integer", "boolean"], "description": "A class."}
ANYTHING: Schema = {}


def listed(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def thing(description: str = "", required: tuple[str, ...] = (), /, **properties: Any) -> Schema:
    out: Schema = {"type": "object", "properties": properties}
    if description:
        out["description"] = description
    return out | ({"required": list(required)} if required else {})


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def by_key(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


SPAN = thing("Where a word of a text is.", start=INTEGER, end=INTEGER)
CONTENT = {
    "id": {
        "type": "string",
        "maxLength": 200,
        "description": "Yours, or made by the server. Sending the same example with the same id again changes nothing.",
    },
    "text": {"type": "string", "description": "For models of texts, and for tables with one column of text."},
    "row": {
        "type": ["object", "array"],
        "description": "For models of tables: {column: value}; columns that are left out are missing.",
    },
    "message": {"type": "string", "description": "A raw RFC 822 message."},
    "message_base64": {"type": "string", "description": "The same, byte for byte."},
}
FIGURES = {
    "examples": INTEGER,
    "accuracy": {"type": ["number", "null"]},
    "log_loss": {"type": ["number", "null"]},
    "calibration_error": {"type": ["number", "null"]},
    "log_density": {"type": ["number", "null"], "description": "The mean of log p(x), where the model has it."},
}
VERSION = {"type": "integer", "description": "The last line of the log that the model contained when it answered."}
MODEL_SUMMARY = {
    "name": STRING,
    "kind": {"type": "string", "description": "The estimator, such as TextClassifier."},
    "takes": {"enum": ["texts", "mail", "rows"]},
    "classes": listed(LABEL),
    "counts": listed(NUMBER) | {"description": "How much was learned of each class."},
    "answers": listed(LABEL) | {"description": "What `label` can be; a mail filter also answers unsure."},
    "target": {"type": ["string", "null"], "description": "The column of labels that the model was trained on."},
    "learns": BOOLEAN,
    "why_not": {"type": ["string", "null"]},
    "version": VERSION,
    "changed": {"type": ["number", "null"], "description": "When it last learned here, in seconds since 1970."},
    "examples": {"type": "integer", "description": "How many examples the store has."},
    "content": {"enum": ["plain", "encrypted", "none"], "description": "How the content of examples is kept."},
    "alarms": listed(ref("Alarm")),
}

SCHEMAS: dict[str, Schema] = {
    "Example": thing("One example: a text, a row or a message.", **CONTENT),
    "Examples": thing("", ("examples",), examples=listed(ref("Example"))),
    "LabelledExample": thing(
        "One example and its label. If a decision with this id is among the recent ones, its content can be left out.",
        ("label",),
        label=LABEL,
        new_class=BOOLEAN | {"description": "Whether the label may be one that the model does not know yet."},
        **CONTENT,
    ),
    "LabelledExamples": thing("", ("examples",), examples=listed(ref("LabelledExample"))),
    "ExampleToForget": thing(
        "The id of an example. Its content is needed where it is not kept; content and label without a known id take "
        "away what the model learned before it was served.",
        label=LABEL,
        **CONTENT,
    ),
    "ExamplesToForget": thing("", ("examples",), examples=listed(ref("ExampleToForget"))),
    "ExampleToExplain": thing(
        "One example, or several under `examples`.",
        target=LABEL | {"description": "The class that evidence is for; by default the likeliest."},
        against=LABEL | {"description": "The class that it is against; by default the next."},
        by={"enum": ["column", "word", "item", "expert"]},
        most=INTEGER | {"description": "How many items; the others are summed up."},
        examples=listed(ref("Example")),
        **CONTENT,
    ),
    "Predictions": thing(
        model=STRING,
        version=VERSION,
        predictions=listed(
            thing(
                id=STRING,
                label=LABEL,
                probability=NUMBER | {"description": "Of the label; of an unsure answer, of the likeliest class."},
                probabilities=by_key(NUMBER),
            )
        ),
    ),
    "Explanations": thing(
        model=STRING,
        version=VERSION,
        explanations=listed(
            thing(
                "prior + Σ evidence = total, in decibans. An infinity is the string infinity or -infinity.",
                id=STRING,
                target=LABEL,
                against=LABEL,
                prior=NUMBER,
                evidence=listed(thing(name=STRING, value=ANYTHING, decibans=NUMBER, positions=listed(SPAN))),
                total=NUMBER,
                probability=NUMBER,
                text=STRING | {"description": "Of models of texts: the text that `spans` are about."},
                spans=listed(thing(start=INTEGER, end=INTEGER, decibans=NUMBER)),
            )
        ),
    ),
    "Results": thing(
        "What was done. It is in the store, and in the model after any crash.",
        model=STRING,
        version=VERSION,
        results=listed(
            thing(
                id=STRING,
                status={"enum": ["learned", "corrected", "forgotten", "unchanged"]},
                label=LABEL,
                was=LABEL | {"description": "The label that was forgotten."},
            )
        ),
    ),
    "ModelSummary": thing(**MODEL_SUMMARY),
    "Models": thing(models=listed(ref("ModelSummary"))),
    "Model": thing(
        columns={
            "type": ["array", "null"],
            "description": "Of models of rows, for forms; `values` are those of columns of categories.",
            "items": thing(name=STRING, kind={"type": ["string", "null"]}, values={"type": ["array", "null"]}),
        },
        **MODEL_SUMMARY,
    ),
    "Alarm": thing(
        code={"enum": ["accuracy", "log_loss", "overconfident", "drift", "class_shares"]},
        message=STRING,
        before=NUMBER,
        now=NUMBER,
    ),
    "Figures": thing("Of examples that were predicted before they were learned.", **FIGURES),
    "ClassFigures": thing(examples=INTEGER, recall=NUMBER, precision={"type": ["number", "null"]}, log_loss=NUMBER),
    "CalibrationBin": thing(
        "from and to are probabilities of answers.",
        examples=INTEGER,
        probability=NUMBER,
        accuracy=NUMBER,
        **{"from": NUMBER, "to": NUMBER},
    ),
    "Quality": thing(
        model=STRING,
        examples=INTEGER,
        window=INTEGER,
        overall=ref("Figures"),
        recent=ref("Figures"),
        by_class=by_key(ref("ClassFigures")),
        calibration=listed(ref("CalibrationBin")),
        over_time=listed(thing(time=NUMBER, seq=INTEGER, **FIGURES)),
        alarms=listed(ref("Alarm")),
    ),
    "Evaluation": thing(
        model=STRING,
        version=VERSION,
        by_class=by_key(ref("ClassFigures")),
        calibration=listed(ref("CalibrationBin")),
        **FIGURES,
    ),
    "Evidence": thing(
        model=STRING,
        version=VERSION,
        evidence=listed(thing(item=STRING, decibans=NUMBER, rows=INTEGER, **{"class": LABEL})),
    ),
    "Recent": thing(
        model=STRING,
        decisions=listed(
            thing(
                id=STRING,
                time=NUMBER,
                label=LABEL,
                likeliest=LABEL,
                probability=NUMBER,
                margin=NUMBER | {"description": "How much likelier the likeliest class is than the next."},
                content={"type": ["object", "null"]},
                taught={"type": ["string", "integer", "boolean", "null"]},
            )
        ),
    ),
    "LearnedExample": thing(
        id=STRING,
        label=LABEL,
        seq=INTEGER,
        time=NUMBER,
        content_kept={"enum": ["plain", "encrypted", "none"]},
        content=thing(),
    ),
    "Log": thing(
        model=STRING,
        log=listed(thing(seq=INTEGER, kind=STRING, id={"type": ["string", "null"]}, time=NUMBER, actor=STRING)),
    ),
    "Replaced": thing(model=STRING, version=VERSION),
    "Caller": thing(name=STRING, scopes=listed({"enum": ["read", "teach", "admin"]})),
    "Status": thing(status=STRING),
    "Error": thing(
        error=thing(
            "What is wrong; `row` is the place of the example in the request, from 0.",
            ("code", "message"),
            code=STRING,
            message=STRING,
            row=INTEGER,
            column={"type": ["string", "integer"]},
            value={"type": ["string", "number", "boolean"]},
        )
    ),
}

# route → schemas of the request, one example or several, and of the answer
REQUESTS = {
    "predict": ("Example", "Examples"),
    "explain": ("ExampleToExplain",),
    "evaluate": ("LabelledExample", "LabelledExamples"),
    "learn": ("LabelledExample", "LabelledExamples"),
    "correct": ("LabelledExample", "LabelledExamples"),
    "forget": ("ExampleToForget", "ExamplesToForget"),
}
ANSWERS = {
    "predict": "Predictions",
    "explain": "Explanations",
    "evaluate": "Evaluation",
    "learn": "Results",
    "correct": "Results",
    "forget": "Results",
    "models": "Models",
    "model": "Model",
    "quality": "Quality",
    "evidence": "Evidence",
    "recent": "Recent",
    "example": "LearnedExample",
    "log": "Log",
    "upload": "Replaced",
    "me": "Caller",
    "healthz": "Status",
    "readyz": "Status",
}
QUERIES: dict[str, dict[str, Schema]] = {
    "evidence": {"most": INTEGER},
    "recent": {"most": INTEGER, "order": {"enum": ["newest", "unsure"]}, "label": STRING, "untaught": BOOLEAN},
    "upload": {"examples": {"enum": ["contained", "learn"]}},
    "log": {"after": INTEGER, "most": INTEGER},
}
MAIL_QUERY = {"id": STRING, "label": STRING}  # of requests whose body is a raw message
ERRORS = {
    400: "The request is not JSON.",
    401: "There is no token, or it was revoked.",
    403: "The token's scopes do not include this.",
    404: "There is no such model or example.",
    408: "The request arrived too slowly.",
    409: "It contradicts what was learned.",
    413: "The request is too large.",
    415: "The content type is another.",
    422: "An example cannot be used: the error says which, and why.",
    429: "Too many requests.",
    503: "The store cannot be written, or too much is waiting: try again.",
}


def document(version: str) -> dict[str, Any]:
    """The description of every route."""
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(shown_path(route), {})[route.method.lower()] = operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "deciban",
            "version": version,
            "description": "Models that classify, explain, learn and forget. Evidence is in decibans (dB): 10 dB are "
            "odds of ten to one.",
        },
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def shown_path(route: ApiRoute) -> str:
    return route.path.replace(":path", "")


def operation(route: ApiRoute) -> dict[str, Any]:
    name = route.name
    names = [part.strip("{}") for part in shown_path(route).split("/") if part.startswith("{")]
    parameters = [{"name": one, "in": "path", "required": True, "schema": STRING} for one in names]
    query = QUERIES.get(name, {}) | (MAIL_QUERY if name in REQUESTS else {})
    parameters += [{"name": one, "in": "query", "required": False, "schema": schema} for one, schema in query.items()]
    out: dict[str, Any] = {"operationId": name, "summary": route.summary, "parameters": parameters}
    if route.scope is not None:
        out["security"] = [{"token": []}]
        out["description"] = f"Needs a token with the scope `{route.scope}`."
    if name in REQUESTS:
        schemas = [ref(one) for one in REQUESTS[name]]
        json_schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
        content = {JSON: {"schema": json_schema}, MAIL: {"schema": {"type": "string", "format": "binary"}}}
        out["requestBody"] = {"required": True, "content": content}
    elif name == "upload":
        binary = {"type": "string", "format": "binary"}
        out["requestBody"] = {"required": True, "content": {MODEL_FILE: {"schema": binary}}}
    out["responses"] = {"200": answer(name)} | {
        str(status): {"description": text, "content": {JSON: {"schema": ref("Error")}}}
        for status, text in ERRORS.items()
        if route.scope is not None
    }
    return out


def answer(name: str) -> dict[str, Any]:
    if name in ANSWERS:
        return {"description": "The answer.", "content": {JSON: {"schema": ref(ANSWERS[name])}}}
    kind = {"metrics": "text/plain", "export": MODEL_FILE}.get(name, JSON)
    return {"description": "The answer.", "content": {kind: {"schema": {}}}}
