/* deciban-filter: a mail on standard input, the same mail on standard output, with the filter's verdict in its header.

   It asks `deciban serve` over HTTP, or starts `deciban filter --alone` to score by a model file. Whatever goes wrong,
   the mail is passed on unchanged, with the reason in a header field: this program never decides that a mail is
   lost. It reads no mail beyond its header's line ends, and allocates no more than --max-size. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef DECIBAN_VERSION
#define DECIBAN_VERSION "unknown"
#endif

enum { SPAM = 0, HAM = 1, UNSURE = 2, ERROR = 3, TEMPORARY_FAILURE = 75 }; /* exit codes; 75 as in sysexits.h */
enum { MAX_ANSWER = 1 << 16, MAX_REASON = 200, LINE = 76, CHUNK = 1 << 16 };

static const char HELP[] =
    "Usage: deciban-filter [OPTIONS] < MESSAGE > MESSAGE\n"
    "\n"
    "Pass a mail through, with an X-Deciban header field: spam, ham or unsure.\n"
    "After any fault the mail passes unchanged, and the field has the reason.\n"
    "\n"
    "  --socket FILE      The server's Unix socket (DECIBAN_SOCKET, or /run/deciban/socket).\n"
    "  --server URL       The server's address, http://ADDRESS:PORT or unix:FILE (DECIBAN_URL).\n"
    "  --token-file FILE  The token to send (DECIBAN_TOKEN).\n"
    "  --model MODEL      A model's name on the server; or its file, to score without a server.\n"
    "  --verdict          Write nothing; leave with 0 for spam, 1 for ham, 2 for unsure, 3 for an error.\n"
    "  --learn LABEL      Learn the mail as spam or ham. Writes nothing; 0 if it was learned, else 3.\n"
    "  --correct LABEL    Learn it as this, whatever it was learned as before.\n"
    "  --forget LABEL     Forget it, which was learned as this.\n"
    "  --evidence NUMBER  Items of evidence in the header (5).\n"
    "  --max-size BYTES   Larger mails pass unchecked (10000000).\n"
    "  --timeout SECONDS  Then the mail passes unchecked (10; 60 to learn, correct or forget).\n"
    "  --version, --help\n";

static struct {
    const char *socket, *server, *token_file, *model, *label;
    enum { FILTER, LEARN, CORRECT, FORGET } what;
    int verdict, evidence;
    size_t max_size;
    double timeout;
} option = {.evidence = 5, .max_size = 10000000};

static const char *own_name = "";
static char reason[MAX_REASON + 1]; /* what is wrong; empty if nothing is */
static struct timespec deadline;

/* ------------------------------------------------------------------ what is wrong */

/* Notes what is wrong, in printable ASCII: the first fault is the one to mend. */
static void fault(const char *format, ...) {
    if (reason[0]) return;
    va_list given;
    va_start(given, format);
    vsnprintf(reason, sizeof reason, format, given);
    va_end(given);
    for (char *p = reason; *p; p++)
        if (*p < ' ' || *p > '~') *p = '?';
    if (!reason[0]) strcpy(reason, "unknown fault");
}

static int complain(int code) {
    if (reason[0]) fprintf(stderr, "deciban-filter: %s\n", reason);
    return code;
}

/* ------------------------------------------------------------------ time */

static void set_deadline(void) {
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += (time_t)option.timeout;
    deadline.tv_nsec += (long)((option.timeout - (double)(time_t)option.timeout) * 1e9);
    if (deadline.tv_nsec >= 1000000000L) deadline.tv_sec++, deadline.tv_nsec -= 1000000000L;
}

static int milliseconds_left(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double left = (double)(deadline.tv_sec - now.tv_sec) * 1e3 + (double)(deadline.tv_nsec - now.tv_nsec) / 1e6;
    return left <= 0.0 ? 0 : left > INT_MAX / 2 ? INT_MAX / 2 : (int)left + 1;
}

/* Waits for one of two files; 0 if the time is over. */
static int wait_for(struct pollfd *files, int count) {
    for (;;) {
        int left = milliseconds_left();
        if (left == 0) {
            fault("no answer within %g seconds", option.timeout);
            return 0;
        }
        int ready = poll(files, (nfds_t)count, left);
        if (ready > 0) return 1;
        if (ready < 0 && errno != EINTR) {
            fault("poll: %s", strerror(errno));
            return 0;
        }
    }
}

/* ------------------------------------------------------------------ bytes */

typedef struct {
    char *data;
    size_t size, room;
} Bytes;

/* Room for more bytes, and one for a NUL; 0 if there is no memory. */
static int make_room(Bytes *bytes, size_t more) {
    if (more >= SIZE_MAX / 4 || bytes->size >= SIZE_MAX / 4) return 0;
    size_t needed = bytes->size + more + 1;
    if (needed <= bytes->room) return 1;
    size_t room = bytes->room < CHUNK ? CHUNK : bytes->room;
    while (room < needed) room *= 2;
    char *data = realloc(bytes->data, room);
    if (data == NULL) return 0;
    bytes->data = data, bytes->room = room;
    return 1;
}

static void add(Bytes *bytes, const char *format, ...) {
    va_list given;
    va_start(given, format);
    int size = vsnprintf(NULL, 0, format, given);
    va_end(given);
    if (size < 0 || !make_room(bytes, (size_t)size)) {
        fault("not enough memory");
        return;
    }
    va_start(given, format);
    vsnprintf(bytes->data + bytes->size, (size_t)size + 1, format, given);
    va_end(given);
    bytes->size += (size_t)size;
}

/* A part of an address: what has a meaning in addresses as %XX. */
static void add_encoded(Bytes *bytes, const char *text) {
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if (isalnum(*p) || strchr("-._~", *p))
            add(bytes, "%c", *p);
        else
            add(bytes, "%%%02X", *p);
}

/* Reads a mail: 1 if that is all of it, 0 if there is more than may be kept, -1 if it cannot be read. The beginning of
   its header is kept in any case. */
static int read_mail(Bytes *mail) {
    size_t limit = option.max_size > CHUNK ? option.max_size : CHUNK;
    for (;;) {
        size_t left = limit + 1 - mail->size, most = left < CHUNK ? left : CHUNK;
        if (mail->size > option.max_size) fault("the mail has more than %zu bytes", option.max_size);
        if (left == 0) return 0;
        if (!make_room(mail, most)) {
            fault("not enough memory");
            return 0;
        }
        ssize_t got = read(STDIN_FILENO, mail->data + mail->size, most);
        if (got == 0) return 1;
        if (got > 0)
            mail->size += (size_t)got;
        else if (errno != EINTR) {
            fault("standard input: %s", strerror(errno));
            return -1;
        }
    }
}

/* Reads what is left of a mail; 0 if it cannot be read. */
static int read_rest(void (*use)(const char *, size_t)) {
    static char more[CHUNK];
    for (;;) {
        ssize_t got = read(STDIN_FILENO, more, sizeof more);
        if (got == 0) return 1;
        if (got > 0) {
            if (use != NULL) use(more, (size_t)got);
        } else if (errno != EINTR) {
            fprintf(stderr, "deciban-filter: standard input: %s\n", strerror(errno));
            return 0;
        }
    }
}

/* ------------------------------------------------------------------ asking */

/* Sends `head` and `body` to one file and reads an answer from another (the same, of a socket) until it ends. */
static int exchange(int to, int from, const Bytes *head, const Bytes *body, Bytes *answer, int is_socket) {
    size_t sent = 0, total = head->size + body->size;
    for (;;) {
        struct pollfd files[2] = {{.fd = from, .events = POLLIN}, {.fd = sent < total ? to : -1, .events = POLLOUT}};
        if (!wait_for(files, 2)) return 0;
        if (files[1].revents) {
            const char *data = sent < head->size ? head->data + sent : body->data + (sent - head->size);
            size_t left = sent < head->size ? head->size - sent : total - sent;
            ssize_t done = write(to, data, left);
            if (done >= 0)
                sent += (size_t)done;
            else if (errno != EINTR && errno != EAGAIN)
                sent = total; /* the other side wants no more of it: its answer has the reason */
            if (sent == total && !is_socket) close(to), to = -1;
        }
        if (files[0].revents) {
            if (!make_room(answer, CHUNK)) {
                fault("not enough memory");
                return 0;
            }
            ssize_t got = read(from, answer->data + answer->size, CHUNK);
            if (got == 0) break;
            if (got > 0)
                answer->size += (size_t)got;
            else if (errno != EINTR && errno != EAGAIN) {
                if (answer->size > 0) break; /* it was sent, and then the connection was cut, as not all was read */
                fault("the answer ends early: %s", strerror(errno));
                return 0;
            }
            if (answer->size > MAX_ANSWER) {
                fault("the answer is too long");
                return 0;
            }
        }
    }
    answer->data[answer->size] = '\0'; /* there is room for it */
    return 1;
}

static int connected(const char *where, const struct sockaddr *address, socklen_t size) {
    int fd = socket(address->sa_family, SOCK_STREAM, 0), problem = 0;
    socklen_t length = sizeof problem;
    if (fd < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) != 0) {
        fault("socket: %s", strerror(errno));
        return -1;
    }
    if (connect(fd, address, size) != 0) {
        /* A Unix socket whose queue is full is EAGAIN, and cannot be waited for by poll. */
        while (errno == EAGAIN && milliseconds_left() > 0) {
            poll(NULL, 0, 5);
            if (connect(fd, address, size) == 0) return fd;
        }
        if (errno != EINPROGRESS) problem = errno;
        struct pollfd file = {.fd = fd, .events = POLLOUT};
        if (problem == 0 && !wait_for(&file, 1)) problem = ETIMEDOUT;
        if (problem == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &length) != 0) problem = errno;
        if (problem != 0) {
            fault("the server at %s does not answer (%s)", where, strerror(problem));
            close(fd);
            return -1;
        }
    }
    return fd;
}

static int connect_unix(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        fault("the path of the socket is too long");
        return -1;
    }
    strcpy(address.sun_path, path);
    return connected(path, (const struct sockaddr *)&address, sizeof address);
}

/* http://ADDRESS:PORT with a numeric address or localhost: a mail must not wait for names to be looked up. */
static int connect_tcp(const char *url) {
    char host[256], port[16] = "8470";
    const char *begin = url + strlen("http://"), *end, *colon;
    size_t size;
    if (*begin == '[') {
        end = strchr(++begin, ']');
        colon = end != NULL && end[1] == ':' ? end + 1 : NULL;
    } else {
        colon = strchr(begin, ':');
        end = colon != NULL ? colon : begin + strcspn(begin, "/");
    }
    size = end == NULL ? sizeof host : (size_t)(end - begin);
    if (colon != NULL) snprintf(port, sizeof port, "%.*s", (int)strcspn(colon + 1, "/"), colon + 1);
    struct addrinfo wanted = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV}, *address;
    if (size > 0 && size < sizeof host) {
        snprintf(host, sizeof host, "%.*s", (int)size, begin);
        if (getaddrinfo(strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, port, &wanted, &address) == 0) {
            int fd = connected(url, address->ai_addr, address->ai_addrlen);
            freeaddrinfo(address);
            return fd;
        }
    }
    fault("'%s' is no address of a server: write http://127.0.0.1:8470 or unix:FILE", url);
    return -1;
}

static void read_token(Bytes *request) {
    char line[512] = "";
    const char *token = getenv("DECIBAN_TOKEN");
    if (option.token_file != NULL) {
        FILE *file = fopen(option.token_file, "r");
        if (file == NULL || fgets(line, sizeof line, file) == NULL)
            fault("%s: %s", option.token_file, file == NULL ? strerror(errno) : "it has no token");
        if (file != NULL) fclose(file);
        line[strcspn(line, " \t\r\n")] = '\0';
        token = line;
    }
    if (token != NULL && token[0] && token[strcspn(token, "\r\n")] == '\0')
        add(request, "Authorization: Bearer %s\r\n", token);
}

/* The message of an error, {"error":{…"message":"…"}}. */
static void server_fault(int status, const char *body) {
    char text[MAX_REASON + 1];
    size_t size = 0;
    const char *p = strstr(body, "\"message\":\"");
    if (p == NULL) {
        fault("the server answers with status %d", status);
        return;
    }
    for (p += strlen("\"message\":\""); *p && *p != '"' && size < MAX_REASON; p++) {
        if (*p == '\\' && p[1] == 'u' && strlen(p) > 5) p += 5, text[size++] = '?';
        else if (*p == '\\' && p[1]) text[size++] = *++p;
        else text[size++] = *p;
    }
    text[size] = '\0';
    fault("%s", text);
}

/* Asks the server; 1 if `answer` is its answer about the mail. */
static int ask_server(const Bytes *mail, Bytes *answer) {
    static const char *const routes[] = {"filter", "learn", "correct", "forget"};
    const char *url = option.server, *path = option.socket;
    if (url == NULL && path == NULL) url = getenv("DECIBAN_URL");
    if (url == NULL && path == NULL) path = getenv("DECIBAN_SOCKET");
    if (url != NULL && path == NULL && strncmp(url, "unix:", 5) == 0) path = url + 5;
    if (url == NULL && path == NULL) path = "/run/deciban/socket";
    Bytes request = {0};
    add(&request, "POST /v1/models/");
    if (option.model != NULL) add_encoded(&request, option.model);
    else add(&request, "-"); /* the only one */
    add(&request, "/%s?evidence=%d", routes[option.what], option.evidence);
    if (option.label != NULL) {
        add(&request, "&label=");
        add_encoded(&request, option.label);
    }
    add(&request, " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: message/rfc822\r\n");
    read_token(&request);
    add(&request, "Content-Length: %zu\r\n\r\n", mail->size);
    if (reason[0]) return 0;
    int fd = -1;
    if (path != NULL) fd = connect_unix(path);
    else if (strncmp(url, "http://", 7) == 0) fd = connect_tcp(url);
    else fault("'%s' is no address of a server: write http://127.0.0.1:8470 or unix:FILE", url);
    if (fd < 0) return 0;
    int done = exchange(fd, fd, &request, mail, answer, 1);
    close(fd);
    free(request.data);
    if (!done) return 0;
    char *body = answer->size > 0 ? memmem(answer->data, answer->size, "\r\n\r\n", 4) : NULL;
    int status = 0;
    if (body == NULL || sscanf(answer->data, "HTTP/1.%*d %d", &status) != 1) {
        fault("the server ends without an answer");
        return 0;
    }
    body += 4;
    if (status != 200) {
        server_fault(status, body);
        return 0;
    }
    answer->size -= (size_t)(body - answer->data);
    memmove(answer->data, body, answer->size + 1);
    return 1;
}

/* Starts the program `deciban` beside this one, or the one on the path. Only returns if there is none. */
static void run_deciban(void) {
    static const char *const actions[] = {NULL, "--learn", "--correct", "--forget"};
    char number[32], program[PATH_MAX];
    snprintf(number, sizeof number, "%d", option.evidence);
    const char *arguments[10] = {"deciban", "filter", "--alone", option.model, "--evidence", number};
    if (option.what != FILTER) arguments[6] = actions[option.what], arguments[7] = option.label;
    ssize_t size = readlink("/proc/self/exe", program, sizeof program - 16); /* of Linux */
    if (size > 0) program[size] = '\0';
    else snprintf(program, sizeof program - 16, "%s", own_name);
    char *slash = strrchr(program, '/');
    if (slash != NULL) {
        strcpy(slash + 1, "deciban");
        execv(program, (char *const *)arguments);
    }
    execvp("deciban", (char *const *)arguments);
}

/* Has a process of Python score the mail by a model file. */
static int ask_python(const Bytes *mail, Bytes *answer) {
    int to[2], from[2], status = 0;
    const Bytes nothing = {0};
    if (pipe(to) != 0 || pipe(from) != 0) {
        fault("pipe: %s", strerror(errno));
        return 0;
    }
    pid_t child = fork();
    if (child < 0) {
        fault("fork: %s", strerror(errno));
        return 0;
    }
    if (child == 0) {
        if (dup2(to[0], STDIN_FILENO) < 0 || dup2(from[1], STDOUT_FILENO) < 0) _exit(126);
        close(to[0]), close(to[1]), close(from[0]), close(from[1]);
        run_deciban();
        _exit(127);
    }
    close(to[0]), close(from[1]);
    fcntl(to[1], F_SETFL, O_NONBLOCK);
    if (mail->size == 0) close(to[1]), to[1] = -1;
    int done = exchange(to[1], from[0], &nothing, mail, answer, 0);
    close(from[0]);
    if (!done) kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    if (!done) return 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return 1;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127) fault("there is no program 'deciban' beside deciban-filter");
    else if (WIFSIGNALED(status)) fault("deciban was ended by signal %d", WTERMSIG(status));
    else if (answer->size > 0) fault("%.*s", (int)strcspn(answer->data, "\r\n"), answer->data);
    else fault("deciban ends with %d", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    return 0;
}

static int is_file(const char *model) {
    size_t size = model == NULL ? 0 : strlen(model);
    return size > 0 && (strchr(model, '/') != NULL || (size > 8 && strcmp(model + size - 8, ".deciban") == 0));
}

/* Whether an answer is header fields of ours and nothing else: it will stand in a mail. */
static int is_header(const Bytes *answer) {
    const char *p = answer->data, *end = answer->data + answer->size;
    if (answer->size == 0 || strncasecmp(p, "X-Deciban", 9) != 0) return 0;
    while (p < end) {
        const char *line = p;
        if (*p != ' ' && strncasecmp(p, "X-Deciban", 9) != 0) return 0;
        while (p < end && *p >= ' ' && *p <= '~') p++;
        if (p == end || *p != '\n' || p - line > 998 || p == line) return 0;
        p++;
    }
    return 1;
}

/* ------------------------------------------------------------------ passing the mail on */

static char output[CHUNK];
static size_t waiting;
static int written = 1; /* whether everything could be written */

static void flush_output(void) {
    size_t at = 0;
    while (written && at < waiting) {
        ssize_t done = write(STDOUT_FILENO, output + at, waiting - at);
        if (done > 0) at += (size_t)done;
        else if (done < 0 && errno == EAGAIN) {
            struct pollfd file = {.fd = STDOUT_FILENO, .events = POLLOUT};
            poll(&file, 1, -1);
        } else if (done < 0 && errno != EINTR) {
            fprintf(stderr, "deciban-filter: standard output: %s\n", strerror(errno));
            written = 0;
        }
    }
    waiting = 0;
}

static void put(const char *data, size_t size) {
    while (size > 0) {
        size_t some = size < sizeof output - waiting ? size : sizeof output - waiting;
        memcpy(output + waiting, data, some);
        waiting += some, data += some, size -= some;
        if (waiting == sizeof output) flush_output();
    }
}

/* Lines with the mail's own line ends. */
static void put_lines(const char *text, size_t size, const char *line_end) {
    for (const char *end = text + size; text < end;) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        if (stop == NULL) stop = end;
        put(text, (size_t)(stop - text));
        put(line_end, strlen(line_end));
        text = stop + 1;
    }
}

static void put_fault(const char *line_end) {
    const char *p = reason;
    size_t column = strlen("X-Deciban: error;");
    put("X-Deciban: error;", column);
    while (*p) {
        size_t word = strcspn(p, " ");
        if (word > 0) {
            if (column + 1 + word > LINE) put(line_end, strlen(line_end)), column = 0;
            put(" ", 1), put(p, word);
            column += 1 + word;
        }
        p += word + (p[word] == ' ');
    }
    put(line_end, strlen(line_end));
}

/* Passes a header on without the fields that are named like ours, which somebody has forged, and then the body. What is
   known of a line until its name is read is held back, so that the mail may come in any pieces. */
static enum { PASSED, DROPPED, BODY } line_is = PASSED;
static int line_begins = 1;
static char held[16];
static size_t held_size;

static void decide_line(int at_end) {
    static const char name[] = "x-deciban";
    const size_t size = sizeof name - 1;
    if (held[0] == ' ' || held[0] == '\t') { /* it belongs to the line before */
        line_begins = 0;
    } else if (held[0] == '\n' || (held[0] == '\r' && held_size > 1 && held[1] == '\n')) {
        line_is = BODY, line_begins = 0;
    } else if (held[0] == '\r' && held_size == 1 && !at_end) {
        return;
    } else {
        size_t same = 0;
        while (same < held_size && same < size && tolower((unsigned char)held[same]) == name[same]) same++;
        if (same == held_size && !at_end && held_size <= size) return;
        line_is = same == size && held_size > size && memchr("-: \t", held[size], 4) ? DROPPED : PASSED;
        line_begins = 0;
    }
    if (line_is == DROPPED) {
        line_begins = held[held_size - 1] == '\n';
    } else {
        put(held, held_size);
        line_begins = line_is != BODY && held[held_size - 1] == '\n';
    }
    held_size = 0;
}

static void pass(const char *data, size_t size) {
    const char *end = data + size;
    while (data < end) {
        if (line_is == BODY) {
            put(data, (size_t)(end - data));
            return;
        }
        if (line_begins) {
            held[held_size++] = *data++;
            decide_line(0);
            continue;
        }
        const char *stop = memchr(data, '\n', (size_t)(end - data));
        stop = stop == NULL ? end : stop + 1;
        if (line_is == PASSED) put(data, (size_t)(stop - data));
        line_begins = stop[-1] == '\n';
        data = stop;
    }
}

/* Whether a line can be a header field, "Name: …". */
static int is_field(const char *p, const char *end) {
    const char *begin = p;
    while (p < end && *p > ' ' && *p <= '~' && *p != ':') p++;
    if (p == begin) return 0;
    while (p < end && (*p == ' ' || *p == '\t')) p++;
    return p < end && *p == ':';
}

static int starts(const char *p, const char *end, const char *with) {
    size_t size = strlen(with);
    return (size_t)(end - p) >= size && memcmp(p, with, size) == 0;
}

/* Writes the mail with our fields; what is not in memory yet is read while it is written. 0 if it was cut short. */
static int pass_mail(const Bytes *mail, const Bytes *answer, int whole) {
    const char *p = mail->data, *end = mail->data + mail->size;
    const char *stop = memchr(p, '\n', mail->size);
    const char *line_end = stop != NULL && stop > p && stop[-1] == '\r' ? "\r\n" : "\n";
    while (stop != NULL && (starts(p, stop, "From ") || (p > mail->data && starts(p, stop, ">From ")))) {
        put(p, (size_t)(stop + 1 - p)); /* mbox files begin a mail with such lines, and they must stay the first */
        p = stop + 1;
        stop = memchr(p, '\n', (size_t)(end - p));
    }
    if (reason[0]) put_fault(line_end);
    else put_lines(answer->data, answer->size, line_end);
    int is_empty = p == end || *p == '\n' || (*p == '\r' && end - p > 1 && p[1] == '\n');
    if (!is_empty && !is_field(p, end)) { /* it has no header, and its first line must not become a part of ours */
        put(line_end, strlen(line_end));
        line_is = BODY;
    }
    if (end > p) pass(p, (size_t)(end - p));
    int complete = whole || read_rest(pass);
    if (held_size > 0) decide_line(1);
    flush_output();
    return complete && written;
}

/* ------------------------------------------------------------------ options */

static const char *value_of(int *at, int count, char **given, const char *name) {
    size_t size = strlen(name);
    const char *one = given[*at];
    if (strncmp(one, name, size) != 0 || (one[size] != '\0' && one[size] != '=')) return NULL;
    if (one[size] == '=') return one + size + 1;
    if (*at + 1 < count) return given[++*at];
    fault("%s needs a value", name);
    return "";
}

static double number_of(const char *text, const char *name, double least, double most) {
    char *end;
    double number = strtod(text, &end);
    if (*text == '\0' || *end != '\0' || !(number >= least && number <= most)) {
        fault("%s is '%s', which is no number from %g to %g", name, text, least, most);
        return least;
    }
    return number;
}

static void read_options(int count, char **given) {
    for (int i = 1; i < count; i++) {
        const char *value;
        if (strcmp(given[i], "--help") == 0 || strcmp(given[i], "-h") == 0) {
            fputs(HELP, stdout);
            exit(fflush(stdout) == 0 ? 0 : ERROR);
        }
        if (strcmp(given[i], "--version") == 0) {
            printf("deciban-filter %s\n", DECIBAN_VERSION);
            exit(0);
        }
        if (strcmp(given[i], "--verdict") == 0) option.verdict = 1;
        else if ((value = value_of(&i, count, given, "--socket"))) option.socket = value;
        else if ((value = value_of(&i, count, given, "--server"))) option.server = value;
        else if ((value = value_of(&i, count, given, "--token-file"))) option.token_file = value;
        else if ((value = value_of(&i, count, given, "--model"))) option.model = value;
        else if ((value = value_of(&i, count, given, "--learn"))) option.what = LEARN, option.label = value;
        else if ((value = value_of(&i, count, given, "--correct"))) option.what = CORRECT, option.label = value;
        else if ((value = value_of(&i, count, given, "--forget"))) option.what = FORGET, option.label = value;
        else if ((value = value_of(&i, count, given, "--evidence")))
            option.evidence = (int)number_of(value, "--evidence", 0, 20);
        else if ((value = value_of(&i, count, given, "--max-size")))
            option.max_size = (size_t)number_of(value, "--max-size", 0, 1e9);
        else if ((value = value_of(&i, count, given, "--timeout")))
            option.timeout = number_of(value, "--timeout", 0.001, 3600);
        else fault("there is no option %s: see deciban-filter --help", given[i]);
    }
    if (option.timeout <= 0.0) option.timeout = option.what == FILTER ? 10.0 : 60.0;
}

static int exit_code(const Bytes *answer) {
    static const char *const labels[] = {"spam", "ham", "unsure"};
    const char *label = answer->data + strlen("X-Deciban:");
    label += strspn(label, " ");
    size_t size = strcspn(label, ";\n");
    for (int code = SPAM; code <= UNSURE; code++)
        if (strlen(labels[code]) == size && strncmp(label, labels[code], size) == 0) return code;
    fault("the verdict is '%.*s', which has no exit code", (int)size, label);
    return complain(ERROR);
}

int main(int count, char **given) {
    Bytes mail = {0}, answer = {0};
    if (count > 0) own_name = given[0];
    read_options(count, given);
    if (isatty(STDIN_FILENO)) {
        fputs(HELP, stderr);
        return ERROR;
    }
    signal(SIGPIPE, SIG_IGN);
    int whole = read_mail(&mail);
    set_deadline();
    if (!reason[0]) {
        if (is_file(option.model)) ask_python(&mail, &answer);
        else ask_server(&mail, &answer);
    }
    if (whole == 0 && (option.what != FILTER || option.verdict)) read_rest(NULL); /* who writes it must not fail */
    if (option.what != FILTER) return reason[0] ? complain(ERROR) : 0;
    if (!reason[0] && !is_header(&answer)) fault("the answer is not what a filter answers");
    if (option.verdict) return reason[0] ? complain(ERROR) : exit_code(&answer);
    if (whole < 0) return complain(TEMPORARY_FAILURE);
    complain(0);
    return pass_mail(&mail, &answer, whole) ? 0 : TEMPORARY_FAILURE;
}
