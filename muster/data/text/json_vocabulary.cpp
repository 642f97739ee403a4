#include "muster/data/text/json_vocabulary_internal.h"

#include <nlohmann/json.hpp>

#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"

namespace muster::internal {
namespace {

// Takes an object of whole numbers and refuses all else while it is read, so that nothing is built
// of what a file nests.
class TokenReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return refuse("null"); }
  bool boolean(bool /*value*/) override { return refuse("a truth value"); }
  bool number_integer(number_integer_t value) override {
    throw InvalidArgument("token \"{}\" has the id {}, which is negative", key_, value);
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (!inside_) return refuse("a number");
    entries.emplace_back(std::move(key_), value);
    return true;
  }
  bool number_float(number_float_t /*value*/, const string_t& text) override {
    return refuse(text);
  }
  bool string(string_t& /*value*/) override { return refuse("a string"); }
  bool binary(binary_t& /*value*/) override { return refuse("bytes"); }
  bool start_object(std::size_t /*elements*/) override {
    if (inside_) return refuse("an object");
    return inside_ = true;
  }
  bool key(string_t& value) override {
    key_ = std::move(value);
    return true;
  }
  bool end_object() override { return true; }
  bool start_array(std::size_t /*elements*/) override { return refuse("a list"); }
  bool end_array() override { return true; }
  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::json::exception& /*exception*/) override {
    throw InvalidArgument("it is no JSON at offset {}", position == 0 ? 0 : position - 1);
  }

  std::vector<std::pair<std::string, std::uint64_t>> entries;

 private:
  [[noreturn]] bool refuse(std::string_view what) const {
    if (!inside_) throw InvalidArgument("it should be a JSON object of tokens and ids: {}", what);
    throw InvalidArgument("token \"{}\" should have a whole number as its id: {}", key_, what);
  }

  bool inside_ = false;
  std::string key_;
};

}  // namespace

TokenTable read_json_vocabulary(std::string_view json) {
  TokenReader reader;
  nlohmann::json::sax_parse(json, &reader);
  auto& entries = reader.entries;
  if (entries.empty()) throw InvalidArgument("there are no tokens in it");
  std::vector<std::string> tokens(entries.size());
  std::vector<bool> taken(entries.size());
  for (auto& [token, id] : entries) {
    if (id >= tokens.size()) {
      throw InvalidArgument("token \"{}\" has the id {}, and {} tokens have ids below {}", token,
                            id, tokens.size(), tokens.size());
    }
    if (taken[id])
      throw InvalidArgument("tokens \"{}\" and \"{}\" have the id {}", tokens[id], token, id);
    taken[id] = true;
    tokens[id] = std::move(token);
  }
  TokenTable table(std::move(tokens));
  for (std::int64_t id = 0; id < table.size(); ++id) {
    if (*table.find(table.token(id)) != id) {
      throw InvalidArgument("\"{}\" occurs twice, with the ids {} and {}", table.token(id),
                            *table.find(table.token(id)), id);
    }
  }
  return table;
}

}  // namespace muster::internal
