"""The kernel's types: documents read in place, sets of words, sets of pairs."""

from deciban._kernel import text as kernel

Documents = kernel.Documents
PairVocabulary = kernel.PairVocabulary
Vocabulary = kernel.Vocabulary
