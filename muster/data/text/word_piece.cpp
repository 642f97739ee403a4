#include "muster/data/text/word_piece.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/lines.h"
#include "muster/data/text/token_table_internal.h"
#include "muster/data/text/unicode.h"
#include "muster/data/text/unicode_internal.h"
#include "muster/data/text/vocabulary_file_internal.h"

namespace muster {
namespace {

using internal::CharacterKind;
using internal::CodePoint;

// Blocks of ideographs, as BERT's published tokenizer has them.
bool is_ideograph(CodePoint point) {
  constexpr std::array<std::pair<CodePoint, CodePoint>, 8> kBlocks{{{0x4e00, 0x9fff},
                                                                    {0x3400, 0x4dbf},
                                                                    {0x20000, 0x2a6df},
                                                                    {0x2a700, 0x2b73f},
                                                                    {0x2b740, 0x2b81f},
                                                                    {0x2b820, 0x2ceaf},
                                                                    {0xf900, 0xfaff},
                                                                    {0x2f800, 0x2fa1f}}};
  if (point < 0x3400) return false;
  return std::any_of(kBlocks.begin(), kBlocks.end(), [&](const auto& block) {
    return block.first <= point && point <= block.second;
  });
}

// Signs of ASCII such as $ count, though Unicode calls them symbols.
bool is_punctuation(CodePoint point) {
  if (point < 0x80) {
    return (point >= 33 && point <= 47) || (point >= 58 && point <= 64) ||
           (point >= 91 && point <= 96) || (point >= 123 && point <= 126);
  }
  return internal::kind_of(point) == CharacterKind::kPunctuation;
}

bool is_dropped(CodePoint point) {
  if (point == '\t' || point == '\n' || point == '\r') return false;
  return point == 0xfffd || internal::kind_of(point) == CharacterKind::kControl;
}

bool ends_word(CodePoint point) {
  return point == '\t' || point == '\n' || point == '\r' || internal::is_white_space(point);
}

class WordPiece final : public Tokenizer {
 public:
  WordPiece(internal::TokenTable table, WordPieceOptions options);

  std::vector<std::int64_t> encode(std::string_view text) const override;
  std::string decode(std::span<const std::int64_t> ids) const override;
  std::int64_t size() const override { return table_.size(); }
  std::string_view token(std::int64_t id) const override { return table_.token(id); }
  std::optional<std::int64_t> find(std::string_view token) const override {
    return table_.find(token);
  }

 private:
  // Splits a stretch of text without white space, in its last form, at punctuation.
  void add_stretch(std::string& stretch, std::vector<std::int64_t>& ids) const;
  std::string folded(const std::string& stretch) const;
  void add_word(std::string_view word, std::vector<std::int64_t>& ids) const;

  internal::TokenTable table_;
  WordPieceOptions options_;
  std::int64_t unknown_;
  // Pieces that continue a word, without the prefix.
  std::unordered_map<std::string_view, std::int64_t> continuing_;
  std::size_t longest_ = 0;
};

WordPiece::WordPiece(internal::TokenTable table, WordPieceOptions options)
    : table_(std::move(table)), options_(std::move(options)) {
  if (options_.max_word_length < 1) {
    throw InvalidArgument("max_word_length must be positive: {}", options_.max_word_length);
  }
  if (options_.continuation.empty()) throw InvalidArgument("continuation must not be empty");
  const auto unknown = table_.find(options_.unknown);
  if (!unknown) {
    throw InvalidArgument(
        "the vocabulary of {} tokens has no \"{}\", which unknown words become; name its own in "
        "WordPieceOptions::unknown",
        table_.size(), options_.unknown);
  }
  unknown_ = *unknown;
  for (std::size_t id = 0; id < table_.tokens().size(); ++id) {
    const std::string_view token = table_.tokens()[id];
    longest_ = std::max(longest_, token.size());
    if (token.size() > options_.continuation.size() && token.starts_with(options_.continuation)) {
      continuing_.emplace(token.substr(options_.continuation.size()),
                          static_cast<std::int64_t>(id));
    }
  }
}

std::vector<std::int64_t> WordPiece::encode(std::string_view text) const {
  require_utf8(text);
  std::vector<std::int64_t> ids;
  std::string stretch;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = internal::next_code_point(text, at);
    if (ends_word(point)) {
      add_stretch(stretch, ids);
    } else if (!is_dropped(point)) {
      const bool alone = options_.split_ideographs && is_ideograph(point);
      if (alone) add_stretch(stretch, ids);
      internal::append_code_point(point, stretch);
      if (alone) add_stretch(stretch, ids);
    }
  }
  add_stretch(stretch, ids);
  return ids;
}

std::string WordPiece::folded(const std::string& stretch) const {
  const std::string plain =
      options_.strip_accents ? normalised(stretch, NormalForm::kNfd) : stretch;
  std::string out;
  out.reserve(plain.size());
  for (std::size_t at = 0; at < plain.size();) {
    const CodePoint point = internal::next_code_point(plain, at);
    if (options_.strip_accents && internal::kind_of(point) == CharacterKind::kMark) continue;
    if (options_.lower_case) {
      internal::append_lower_case(point, out);
    } else {
      internal::append_code_point(point, out);
    }
  }
  return out;
}

void WordPiece::add_stretch(std::string& stretch, std::vector<std::int64_t>& ids) const {
  if (stretch.empty()) return;
  const std::string text = folded(stretch);
  stretch.clear();
  std::size_t word = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    if (!is_punctuation(internal::next_code_point(text, at))) continue;
    add_word(std::string_view(text).substr(word, begin - word), ids);
    add_word(std::string_view(text).substr(begin, at - begin), ids);
    word = at;
  }
  add_word(std::string_view(text).substr(word), ids);
}

void WordPiece::add_word(std::string_view word, std::vector<std::int64_t>& ids) const {
  if (word.empty()) return;
  const auto characters =
      std::count_if(word.begin(), word.end(), [](char byte) { return (byte & 0xc0) != 0x80; });
  if (characters > options_.max_word_length) {
    ids.push_back(unknown_);
    return;
  }
  const std::size_t before = ids.size();
  for (std::size_t begin = 0; begin < word.size();) {
    std::size_t bytes = std::min(word.size() - begin, longest_);
    std::optional<std::int64_t> id;
    for (; bytes > 0; --bytes) {
      // A token does not end inside a character, so that it is not found there.
      const std::string_view piece = word.substr(begin, bytes);
      if (begin == 0) {
        id = table_.find(piece);
      } else if (const auto found = continuing_.find(piece); found != continuing_.end()) {
        id = found->second;
      }
      if (id) break;
    }
    if (!id) {
      ids.resize(before);
      ids.push_back(unknown_);
      return;
    }
    ids.push_back(*id);
    begin += bytes;
  }
}

std::string WordPiece::decode(std::span<const std::int64_t> ids) const {
  std::string out;
  for (const auto id : ids) {
    const std::string_view token = table_.token(id);
    if (token.size() > options_.continuation.size() && token.starts_with(options_.continuation)) {
      out.append(token.substr(options_.continuation.size()));
      continue;
    }
    if (!out.empty()) out.push_back(' ');
    out.append(token);
  }
  return out;
}

internal::TokenTable read_vocabulary_lines(std::string_view bytes) {
  const auto lines = lines_of(bytes);
  std::vector<std::string> tokens;
  std::unordered_map<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].empty()) throw InvalidArgument("line {} is empty, where a token should be", i + 1);
    if (const auto at = first_invalid_utf8(lines[i])) {
      throw InvalidArgument("line {} is not UTF-8 from byte {} on", i + 1, *at + 1);
    }
    const auto [place, added] = places.emplace(lines[i], i);
    if (!added) {
      throw InvalidArgument("\"{}\" occurs twice: lines {} and {}", lines[i], place->second + 1,
                            i + 1);
    }
    tokens.emplace_back(lines[i]);
  }
  if (tokens.empty()) throw InvalidArgument("there are no tokens in it");
  return internal::TokenTable(std::move(tokens));
}

}  // namespace

TokenizerPtr word_piece_from_bytes(std::string_view vocabulary, WordPieceOptions options) {
  return std::make_shared<WordPiece>(read_vocabulary_lines(vocabulary), std::move(options));
}

TokenizerPtr word_piece_tokenizer(const Path& vocabulary, WordPieceOptions options) {
  return internal::with_vocabulary_file("vocabulary", vocabulary, [&](const std::string& bytes) {
    return word_piece_from_bytes(bytes, std::move(options));
  });
}

}  // namespace muster
