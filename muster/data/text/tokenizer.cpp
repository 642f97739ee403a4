#include "muster/data/text/tokenizer.h"

#include "muster/base/error.h"

namespace muster {

std::int64_t Tokenizer::id(std::string_view token) const {
  if (const auto found = find(token)) return *found;
  throw NotFound("the vocabulary of {} tokens has no \"{}\"", size(), token);
}

std::vector<std::string> Tokenizer::tokenize(std::string_view text) const {
  std::vector<std::string> tokens;
  for (const auto id : encode(text)) tokens.emplace_back(token(id));
  return tokens;
}

}  // namespace muster
