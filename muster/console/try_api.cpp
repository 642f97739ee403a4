#include "muster/console/try_api.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/console/served_model.h"
#include "muster/saved_model/graph/known_words.h"

namespace muster::console {
namespace {

using nlohmann::json;

// Larger graphs have their words in files.
constexpr graph::GraphLimits kFormLimits{.file_bytes = std::uint64_t{256} << 20,
                                         .tensor_bytes = std::uint64_t{64} << 20,
                                         .repeated_bytes = std::uint64_t{16} << 20};
constexpr std::size_t kMostRowsAtOnce = 100;
constexpr std::size_t kMostSkippedRows = 100'000;

std::string form_text(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// By signature and input.
json words_of(const Path& folder) {
  json words = json::object();
  const graph::SavedModel model = graph::read_saved_model(folder, kFormLimits);
  const graph::MetaGraph& meta = graph::find_meta_graph(model, {std::string(graph::kServeTag)});
  for (const auto& [name, signature] : meta.signatures) {
    const auto known = graph::known_words(meta, signature, folder / "assets");
    if (!known.empty()) words[name] = known;
  }
  return words;
}

// The values of flags of files whose name has "eval", as one text each.
std::vector<std::string> evaluation_words(const json& record) {
  std::vector<std::string> found;
  const auto arguments = record.is_object() ? record.find("arguments") : record.end();
  if (arguments == record.end() || !arguments->is_array()) return found;
  bool is_of_evaluation = false;
  for (const json& one : *arguments) {
    if (!one.is_string()) continue;
    const auto word = one.get<std::string>();
    if (word.starts_with("-")) {
      is_of_evaluation = word.find("eval") != word.npos && word.find("file") != word.npos;
    }
    if (is_of_evaluation) found.push_back(word);
  }
  return found;
}

// By the flags of the run; where these name no file, by the name of the file.
bool is_evaluated(const std::string& file, const std::vector<std::string>& evaluated) {
  if (evaluated.empty()) {
    return std::ranges::any_of(std::array{"eval", "test", "valid"},
                               [&](const char* word) { return file.find(word) != file.npos; });
  }
  return std::ranges::any_of(evaluated,
                             [&](const std::string& word) { return word.find(file) != word.npos; });
}

}  // namespace

serving::HttpResponse TryApi::form(const ApiRequest& request) const {
  const auto served = find_served_model(models_dir_, runs_, request.path.at(3), request.path.at(4));
  json words = json::object();
  std::vector<std::string> evaluated;
  if (served) {
    try {
      words = words_of(served->folder);
    } catch (const Error& error) {
      log::warning("the words of {} are not known: {}", served->folder.string(), error.what());
    }
    evaluated = evaluation_words(json::parse(served->record, nullptr, /*allow_exceptions=*/false));
  }
  json first = json::array();
  json others = json::array();
  for (const std::string& name : files_.list()) {
    const std::string last = name.substr(name.find('/') == name.npos ? 0 : name.find('/') + 1);
    const bool is_of_evaluation = is_evaluated(last, evaluated);
    (is_of_evaluation ? first : others)
        .push_back({{"name", name}, {"isOfEvaluation", is_of_evaluation}});
  }
  first.insert(first.end(), others.begin(), others.end());
  return {.body = form_text(json{{"words", std::move(words)}, {"files", std::move(first)}})};
}

serving::HttpResponse TryApi::rows(const ApiRequest& request) const {
  const std::size_t from = request.number("from", 0, 0, kMostSkippedRows);
  const std::size_t count = request.number("count", 20, 1, kMostRowsAtOnce);
  json rows = json::array();
  for (const ExampleRow& row :
       files_.rows(request.first("file").value_or(""), from, count, request.all("input"))) {
    rows.push_back(
        {{"values", json::parse(row.values)}, {"raw", row.raw}, {"isBase64", row.is_base64}});
  }
  return {.body = form_text(json{{"rows", std::move(rows)}})};
}

}  // namespace muster::console
