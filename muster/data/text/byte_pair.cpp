#include "muster/data/text/byte_pair.h"

#include <array>
#include <queue>
#include <unordered_map>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/lines.h"
#include "muster/data/text/json_vocabulary_internal.h"
#include "muster/data/text/text_words_internal.h"
#include "muster/data/text/token_table_internal.h"
#include "muster/data/text/unicode.h"
#include "muster/data/text/unicode_internal.h"
#include "muster/data/text/vocabulary_file_internal.h"

namespace muster {
namespace {

using internal::CodePoint;

// Tokens are text, so that every byte is written as a character that can be seen: itself, or one
// from U+0100 on.
std::array<CodePoint, 256> visible_bytes() {
  std::array<CodePoint, 256> points{};
  CodePoint next = 256;
  for (CodePoint byte = 0; byte < 256; ++byte) {
    const bool visible = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
    points[static_cast<std::size_t>(byte)] = visible ? byte : next++;
  }
  return points;
}

// Bytes that a token stands for. A character that is no byte's, as special tokens may have, stands
// for itself.
std::string bytes_of_token(std::string_view token,
                           const std::unordered_map<CodePoint, char>& byte_of) {
  std::string bytes;
  for (std::size_t at = 0; at < token.size();) {
    const CodePoint point = internal::next_code_point(token, at);
    const auto found = byte_of.find(point);
    if (found != byte_of.end()) {
      bytes.push_back(found->second);
    } else {
      internal::append_code_point(point, bytes);
    }
  }
  return bytes;
}

struct Merge {
  std::uint32_t rank = 0;
  std::uint32_t whole = 0;
};

// Rules by their two tokens.
class MergeRules {
 public:
  const Merge* find(std::uint32_t left, std::uint32_t right) const {
    const auto found = rules_.find(key(left, right));
    return found == rules_.end() ? nullptr : &found->second;
  }
  /// False where there is one for these two.
  bool add(std::uint32_t left, std::uint32_t right, Merge merge) {
    return rules_.emplace(key(left, right), merge).second;
  }

 private:
  static std::uint64_t key(std::uint32_t left, std::uint32_t right) {
    return std::uint64_t{left} << 32 | right;
  }
  struct Hash {
    std::size_t operator()(std::uint64_t key) const {
      return static_cast<std::size_t>((key ^ key >> 29) * 0x9e3779b97f4a7c15U >> 7);
    }
  };
  std::unordered_map<std::uint64_t, Merge, Hash> rules_;
};

MergeRules read_rules(std::string_view text, const internal::TokenTable& table) {
  MergeRules rules;
  const auto lines = lines_of(text);
  const auto id_of = [&](std::string_view token, std::size_t line) {
    const auto id = table.find(token);
    if (!id) {
      throw InvalidArgument("line {}: \"{}\" is not in the vocabulary", line + 1, token);
    }
    return static_cast<std::uint32_t>(*id);
  };
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string_view line = lines[i];
    if ((i == 0 && line.starts_with("#version")) || line.empty()) continue;
    if (const auto at = first_invalid_utf8(line)) {
      throw InvalidArgument("line {} is not UTF-8 from byte {} on", i + 1, *at + 1);
    }
    const auto space = line.find(' ');
    if (space == 0 || space == std::string_view::npos || space + 1 == line.size() ||
        line.find(' ', space + 1) != std::string_view::npos) {
      throw InvalidArgument("line {} is no rule, which is two tokens with a space between: \"{}\"",
                            i + 1, line);
    }
    const auto left = line.substr(0, space);
    const auto right = line.substr(space + 1);
    const Merge merge{.rank = static_cast<std::uint32_t>(i),
                      .whole = id_of(std::string(left).append(right), i)};
    if (!rules.add(id_of(left, i), id_of(right, i), merge)) {
      throw InvalidArgument("line {}: there is a rule for \"{}\" above", i + 1, line);
    }
  }
  return rules;
}

// Symbols of a word as a list, in which neighbours are joined.
class WordMerger {
 public:
  explicit WordMerger(const MergeRules& rules) : rules_(rules) {}

  void add_symbol(std::uint32_t id) { symbols_.push_back({.id = id}); }
  // Joins by rank, and from left to right within a rank; gives the ids and is empty again.
  void finish(std::vector<std::int64_t>& ids);

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  struct Symbol {
    std::uint32_t id = 0;
    std::size_t previous = kNone;
    std::size_t next = kNone;
    bool gone = false;
  };
  struct Candidate {
    Merge merge;
    std::size_t left;
    std::uint32_t left_id;
    std::uint32_t right_id;
    bool operator<(const Candidate& other) const {
      return std::pair(merge.rank, left) > std::pair(other.merge.rank, other.left);
    }
  };

  void look_at(std::size_t left);

  const MergeRules& rules_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Candidate> candidates_;
};

void WordMerger::look_at(std::size_t left) {
  if (left == kNone || symbols_[left].next == kNone) return;
  const std::uint32_t left_id = symbols_[left].id;
  const std::uint32_t right_id = symbols_[symbols_[left].next].id;
  if (const Merge* merge = rules_.find(left_id, right_id)) {
    candidates_.push({.merge = *merge, .left = left, .left_id = left_id, .right_id = right_id});
  }
}

void WordMerger::finish(std::vector<std::int64_t>& ids) {
  for (std::size_t i = 0; i < symbols_.size(); ++i) {
    if (i > 0) symbols_[i].previous = i - 1;
    if (i + 1 < symbols_.size()) symbols_[i].next = i + 1;
  }
  for (std::size_t i = 0; i < symbols_.size(); ++i) look_at(i);
  while (!candidates_.empty()) {
    const Candidate best = candidates_.top();
    candidates_.pop();
    Symbol& left = symbols_[best.left];
    // One of the two symbols may have been joined with something else meanwhile.
    if (left.gone || left.id != best.left_id || left.next == kNone) continue;
    Symbol& right = symbols_[left.next];
    if (right.id != best.right_id) continue;
    left.id = best.merge.whole;
    right.gone = true;
    left.next = right.next;
    if (right.next != kNone) symbols_[right.next].previous = best.left;
    look_at(left.previous);
    look_at(best.left);
  }
  for (const Symbol& symbol : symbols_) {
    if (!symbol.gone) ids.push_back(symbol.id);
  }
  symbols_.clear();
}

using ByteIds = std::array<std::uint32_t, 256>;

struct ByteVocabulary {
  internal::TokenTable table{};
  ByteIds byte_ids{};
};

ByteVocabulary read_byte_vocabulary(std::string_view json) {
  ByteVocabulary vocabulary{.table = internal::read_json_vocabulary(json)};
  const auto points = visible_bytes();
  for (std::size_t byte = 0; byte < points.size(); ++byte) {
    std::string token;
    internal::append_code_point(points[byte], token);
    const auto id = vocabulary.table.find(token);
    if (!id) {
      throw InvalidArgument("there is no \"{}\", the token of byte 0x{:02x}", token, byte);
    }
    vocabulary.byte_ids[byte] = static_cast<std::uint32_t>(*id);
  }
  return vocabulary;
}

class BytePair final : public Tokenizer {
 public:
  BytePair(ByteVocabulary vocabulary, MergeRules rules, BytePairOptions options);

  std::vector<std::int64_t> encode(std::string_view text) const override;
  std::string decode(std::span<const std::int64_t> ids) const override;
  std::int64_t size() const override { return table_.size(); }
  std::string_view token(std::int64_t id) const override { return table_.token(id); }
  std::optional<std::int64_t> find(std::string_view token) const override {
    return table_.find(token);
  }

 private:
  internal::TokenTable table_;
  ByteIds byte_ids_;
  MergeRules rules_;
  BytePairOptions options_;
  // By token.
  std::vector<std::string> bytes_;
};

BytePair::BytePair(ByteVocabulary vocabulary, MergeRules rules, BytePairOptions options)
    : table_(std::move(vocabulary.table)),
      byte_ids_(vocabulary.byte_ids),
      rules_(std::move(rules)),
      options_(options) {
  const auto points = visible_bytes();
  std::unordered_map<CodePoint, char> byte_of;
  for (std::size_t byte = 0; byte < points.size(); ++byte) {
    byte_of.emplace(points[byte], static_cast<char>(byte));
  }
  bytes_.reserve(table_.tokens().size());
  for (const auto& token : table_.tokens()) bytes_.push_back(bytes_of_token(token, byte_of));
}

std::vector<std::int64_t> BytePair::encode(std::string_view text) const {
  require_utf8(text);
  std::string spaced;
  if (options_.add_prefix_space && !text.starts_with(' ')) {
    spaced = std::string(" ").append(text);
    text = spaced;
  }
  std::vector<std::int64_t> ids;
  WordMerger merger(rules_);
  internal::TextWords words(text);
  while (const auto word = words.next()) {
    for (const char byte : *word) merger.add_symbol(byte_ids_[static_cast<unsigned char>(byte)]);
    merger.finish(ids);
  }
  return ids;
}

std::string BytePair::decode(std::span<const std::int64_t> ids) const {
  std::string out;
  for (const auto id : ids) {
    table_.token(id);  // throws where there is none
    out.append(bytes_[static_cast<std::size_t>(id)]);
  }
  return out;
}

}  // namespace

TokenizerPtr byte_pair_from_bytes(std::string_view vocabulary, std::string_view merges,
                                  BytePairOptions options) {
  auto tokens = read_byte_vocabulary(vocabulary);
  auto rules = read_rules(merges, tokens.table);
  return std::make_shared<BytePair>(std::move(tokens), std::move(rules), options);
}

TokenizerPtr byte_pair_tokenizer(const Path& vocabulary, const Path& merges,
                                 BytePairOptions options) {
  auto tokens = internal::with_vocabulary_file("vocabulary", vocabulary, read_byte_vocabulary);
  auto rules = internal::with_vocabulary_file(
      "merges", merges, [&](const std::string& bytes) { return read_rules(bytes, tokens.table); });
  return std::make_shared<BytePair>(std::move(tokens), std::move(rules), options);
}

}  // namespace muster
