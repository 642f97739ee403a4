#include <utility>

#include "muster/base/error.h"
#include "muster/data/text/token_table_internal.h"

namespace muster::internal {

TokenTable::TokenTable(std::vector<std::string> tokens) : tokens_(std::move(tokens)) {
  ids_.reserve(tokens_.size());
  for (std::size_t id = 0; id < tokens_.size(); ++id) {
    ids_.emplace(tokens_[id], static_cast<std::int64_t>(id));
  }
}

const std::string& TokenTable::token(std::int64_t id) const {
  if (id < 0 || id >= size()) {
    throw OutOfRange("token {} is not in the vocabulary, which has ids below {}", id, size());
  }
  return tokens_[static_cast<std::size_t>(id)];
}

std::optional<std::int64_t> TokenTable::find(std::string_view token) const {
  const auto found = ids_.find(token);
  if (found == ids_.end()) return {};
  return found->second;
}

}  // namespace muster::internal
