#pragma once

#include <string_view>

#include "muster/base/file_system.h"
#include "muster/data/text/tokenizer.h"

namespace muster {

struct BytePairOptions {
  /// Puts a space in front of a text that begins with none, as RoBERTa does.
  bool add_prefix_space = false;
};

/// GPT-2's tokenizer: text is split into words with the space in front of them, contractions,
/// numbers, signs and white space; bytes of each are joined by the rules of `merges`, the first
/// rule first. Every text has ids, and decode() gives back its bytes.
///
/// `vocabulary` is a JSON object of tokens and their ids, from 0 on without gaps; `merges` has a
/// rule per line, the first line may be a comment with the version. Throws NotFound for a file that
/// is not there, and InvalidArgument: for the vocabulary with the offset or the token, for a gap,
/// an id that occurs twice, and a byte without a token; for the rules with the line, where one has
/// other than two parts, or parts or a whole that the vocabulary does not have.
TokenizerPtr byte_pair_tokenizer(const Path& vocabulary, const Path& merges,
                                 BytePairOptions options = {});
/// The same from the files' bytes.
TokenizerPtr byte_pair_from_bytes(std::string_view vocabulary, std::string_view merges,
                                  BytePairOptions options = {});

}  // namespace muster
