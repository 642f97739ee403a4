#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace muster::internal {

/// Tokens by id and ids by token.
class TokenTable {
 public:
  TokenTable() = default;
  explicit TokenTable(std::vector<std::string> tokens);
  // The map has views of the strings.
  TokenTable(const TokenTable&) = delete;
  TokenTable& operator=(const TokenTable&) = delete;
  TokenTable(TokenTable&&) = default;
  TokenTable& operator=(TokenTable&&) = default;

  std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }
  /// Throws OutOfRange.
  const std::string& token(std::int64_t id) const;
  std::optional<std::int64_t> find(std::string_view token) const;
  const std::vector<std::string>& tokens() const { return tokens_; }

 private:
  std::vector<std::string> tokens_;
  std::unordered_map<std::string_view, std::int64_t> ids_;
};

}  // namespace muster::internal
