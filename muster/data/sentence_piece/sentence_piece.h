#pragma once

#include <string_view>

#include "muster/base/file_system.h"
#include "muster/data/text/tokenizer.h"

namespace muster {

/// Whether this build has libsentencepiece.
bool has_sentence_piece();

/// A SentencePiece model (unigram, byte pairs, words or characters) with the normalisation that is
/// part of it. Tokens are its pieces; a space is written as U+2581. Throws NotFound for no such
/// file, DataLoss with file and offset for one that is damaged, InvalidArgument with the piece for
/// one that no model can have, and FailedPrecondition where this build has no libsentencepiece.
TokenizerPtr sentence_piece_tokenizer(const Path& model);
/// The same from the file's bytes.
TokenizerPtr sentence_piece_from_bytes(std::string_view model);

}  // namespace muster
