#pragma once

#include <string>
#include <string_view>

#include "muster/base/file_system.h"
#include "muster/data/text/tokenizer.h"

namespace muster {

struct WordPieceOptions {
  /// For uncased vocabularies.
  bool lower_case = true;
  /// Drops accents: NFD without nonspacing marks. Vocabularies of cased text keep them.
  bool strip_accents = true;
  /// Each Chinese, Japanese or Korean ideograph is a word of its own.
  bool split_ideographs = true;
  /// Token of words that no pieces make up; the vocabulary has it.
  std::string unknown = "[UNK]";
  /// In front of pieces that continue a word.
  std::string continuation = "##";
  /// Longer words, in characters, are unknown.
  std::int64_t max_word_length = 100;
};

/// BERT's tokenizer: text is cleaned and split at white space and punctuation, and every word into
/// the longest pieces of the vocabulary, from left to right. The file has a token per line, whose
/// id is the line's number from 0 on. Throws NotFound for no such file, and InvalidArgument with
/// file and line for a line that is empty, not UTF-8 or there before, and for a vocabulary without
/// `unknown`.
TokenizerPtr word_piece_tokenizer(const Path& vocabulary, WordPieceOptions options = {});
/// The same from the file's bytes.
TokenizerPtr word_piece_from_bytes(std::string_view vocabulary, WordPieceOptions options = {});

}  // namespace muster
