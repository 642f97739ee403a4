#include "muster/data/sentence_piece/sentence_piece.h"

#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include "muster/base/error.h"
#include "muster/data/sentence_piece/sentence_piece_check_internal.h"
#include "muster/data/text/unicode.h"

namespace muster {
namespace {

// Models of 250,000 pieces have 5 MB.
constexpr std::uint64_t kMaxModelBytes = std::uint64_t{1} << 28;

class SentencePiece final : public Tokenizer {
 public:
  explicit SentencePiece(std::string_view model);

  std::vector<std::int64_t> encode(std::string_view text) const override;
  std::string decode(std::span<const std::int64_t> ids) const override;
  std::int64_t size() const override { return processor_.GetPieceSize(); }
  std::string_view token(std::int64_t id) const override {
    return processor_.IdToPiece(checked(id));
  }
  std::optional<std::int64_t> find(std::string_view token) const override;

 private:
  int checked(std::int64_t id) const;

  sentencepiece::SentencePieceProcessor processor_;
};

SentencePiece::SentencePiece(std::string_view model) {
  internal::check_sentence_piece_model(model);
  const auto status =
      processor_.LoadFromSerializedProto(absl::string_view(model.data(), model.size()));
  if (!status.ok()) {
    throw InvalidArgument("libsentencepiece does not take the model: {}", status.ToString());
  }
}

int SentencePiece::checked(std::int64_t id) const {
  if (id < 0 || id >= size()) {
    throw OutOfRange("token {} is not in the vocabulary, which has ids below {}", id, size());
  }
  return static_cast<int>(id);
}

std::vector<std::int64_t> SentencePiece::encode(std::string_view text) const {
  require_utf8(text);
  std::vector<int> ids;
  const auto status = processor_.Encode(absl::string_view(text.data(), text.size()), &ids);
  if (!status.ok()) throw Internal("libsentencepiece: {}", status.ToString());
  return {ids.begin(), ids.end()};
}

std::string SentencePiece::decode(std::span<const std::int64_t> ids) const {
  std::vector<int> pieces;
  pieces.reserve(ids.size());
  for (const auto id : ids) pieces.push_back(checked(id));
  std::string text;
  const auto status = processor_.Decode(pieces, &text);
  if (!status.ok()) throw Internal("libsentencepiece: {}", status.ToString());
  return text;
}

std::optional<std::int64_t> SentencePiece::find(std::string_view token) const {
  // An unknown piece has the id of the token of unknown words.
  const int id = processor_.PieceToId(absl::string_view(token.data(), token.size()));
  if (id < 0 || id >= processor_.GetPieceSize() || processor_.IdToPiece(id) != token) return {};
  return id;
}

}  // namespace

bool has_sentence_piece() { return true; }

TokenizerPtr sentence_piece_from_bytes(std::string_view model) {
  return std::make_shared<SentencePiece>(model);
}

TokenizerPtr sentence_piece_tokenizer(const Path& model) {
  const std::string bytes = read_file(model, kMaxModelBytes);
  try {
    return sentence_piece_from_bytes(bytes);
  } catch (Error& error) {
    error.add_context(fmt::format("SentencePiece model {}", model.string()));
    throw;
  }
}

}  // namespace muster
