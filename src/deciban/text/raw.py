"""The kernel's own types by name: texts where they lie, sets of words, sets of pairs."""

from deciban._kernel import text as kernel

Documents = kernel.Documents
PairVocabulary = kernel.PairVocabulary
Vocabulary = kernel.Vocabulary
