#include "muster/data/records/sharded_files.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/records/record_index.h"

namespace muster {
namespace {

/// The digits that the names are filled up to.
constexpr std::size_t kShardDigits = 5;
/// No data set has more files; a larger number in a name is a mistake.
constexpr std::uint64_t kMaxShards = 10'000'000;

/// The number at the front of `text`, of at least `min_digits` digits, which are taken off.
std::optional<std::uint64_t> take_number(std::string_view& text, std::size_t min_digits) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits < min_digits) return std::nullopt;
  std::uint64_t number = 0;
  const auto result = std::from_chars(text.data(), text.data() + digits, number);
  if (result.ec != std::errc()) return std::nullopt;
  text.remove_prefix(digits);
  return number;
}

bool is_suffix(std::string_view text) { return text.empty() || text.front() == '.'; }

bool is_pattern(std::string_view text) {
  return text.find_first_of("*?[{") != std::string_view::npos;
}

/// "NAME@3.gz" taken apart, as its shard 0.
std::optional<ShardName> parse_shard_set(std::string_view text) {
  const auto at = text.rfind('@');
  if (at == std::string_view::npos || text.find('/', at) != std::string_view::npos) {
    return std::nullopt;
  }
  std::string_view rest = text.substr(at + 1);
  const auto shards = take_number(rest, 1);
  if (!shards || !is_suffix(rest)) return std::nullopt;
  if (*shards == 0 || *shards > kMaxShards) {
    throw InvalidArgument("{}: the number of shards must be 1 to {}", text, kMaxShards);
  }
  return ShardName{std::string(text.substr(0, at)), 0, *shards, std::string(rest)};
}

/// Looks for the other files of each set that a glob found one of. A pattern may choose a part of a
/// set on purpose, so it is the folder that has to be complete, not the match.
void check_complete(const std::vector<Path>& files, const std::string& pattern) {
  std::set<std::pair<std::string, std::string>> seen;
  for (const Path& file : files) {
    const auto one = parse_shard_name(file.string());
    if (!one || !seen.insert({fmt::format("{}@{}", one->name, one->shards), one->suffix}).second) {
      continue;
    }
    for (std::uint64_t shard = 0; shard < one->shards; ++shard) {
      const std::string name = shard_name(one->name, shard, one->shards, one->suffix);
      if (!file_exists(name)) {
        throw NotFound("{} matches a set of {} shards, but {} is missing", pattern, one->shards,
                       name);
      }
    }
  }
}

bool is_side_index(const Path& file) {
  return file.extension() == ".index" && file_exists(Path(file).replace_extension());
}

std::vector<Path> expand_glob(const std::string& pattern) {
  std::vector<Path> files = glob(pattern);
  std::erase_if(files, is_side_index);
  check_complete(files, pattern);
  return files;
}

std::vector<Path> expand_set(const std::vector<std::string>& names, const std::string& pattern) {
  for (const std::string& name : names) {
    if (!file_exists(name)) throw NotFound("{}: {} is missing", pattern, name);
  }
  return {names.begin(), names.end()};
}

std::vector<Path> expand_one(const std::string& pattern) {
  // A file of just that name is meant, whatever characters are in it.
  if (file_exists(pattern)) return {pattern};
  std::vector<Path> files;
  if (is_pattern(pattern)) {
    files = expand_glob(pattern);
  } else if (const auto names = expand_shards(pattern)) {
    files = expand_set(*names, pattern);
  }
  if (files.empty()) throw NotFound("no file matches {}", pattern);
  return files;
}

}  // namespace

std::string shard_name(std::string_view name, std::uint64_t shard, std::uint64_t shards,
                       std::string_view suffix) {
  if (shard >= shards) throw InvalidArgument("shard {} is not below {}", shard, shards);
  return fmt::format("{}-{:0{}}-of-{:0{}}{}", name, shard, kShardDigits, shards, kShardDigits,
                     suffix);
}

std::optional<ShardName> parse_shard_name(std::string_view name) {
  const auto of = name.rfind("-of-");
  if (of == std::string_view::npos) return std::nullopt;
  const auto dash = name.rfind('-', of - 1);
  if (of == 0 || dash == std::string_view::npos) return std::nullopt;
  std::string_view middle = name.substr(dash + 1, of - dash - 1);
  std::string_view rest = name.substr(of + 4);
  const auto shard = take_number(middle, kShardDigits);
  const auto shards = take_number(rest, kShardDigits);
  if (!shard || !shards || !middle.empty() || !is_suffix(rest) || *shard >= *shards) {
    return std::nullopt;
  }
  return ShardName{std::string(name.substr(0, dash)), *shard, *shards, std::string(rest)};
}

std::optional<std::vector<std::string>> expand_shards(std::string_view name) {
  const auto set = parse_shard_set(name);
  if (!set) return std::nullopt;
  std::vector<std::string> names;
  for (std::uint64_t shard = 0; shard < set->shards; ++shard) {
    names.push_back(shard_name(set->name, shard, set->shards, set->suffix));
  }
  return names;
}

std::vector<Path> expand_files(std::span<const std::string> patterns) {
  std::set<Path> files;
  for (const std::string& pattern : patterns) {
    for (Path& file : expand_one(pattern)) files.insert(std::move(file));
  }
  return {files.begin(), files.end()};
}

}  // namespace muster
