#include "muster/base/error.h"
#include "muster/data/sentence_piece/sentence_piece.h"

namespace muster {
namespace {

[[noreturn]] void fail_without_library() {
  throw FailedPrecondition(
      "this build of muster has no SentencePiece: install libsentencepiece-dev, as scripts/setup "
      "does, and build it again");
}

}  // namespace

bool has_sentence_piece() { return false; }

TokenizerPtr sentence_piece_from_bytes(std::string_view /*model*/) { fail_without_library(); }

TokenizerPtr sentence_piece_tokenizer(const Path& /*model*/) { fail_without_library(); }

}  // namespace muster
