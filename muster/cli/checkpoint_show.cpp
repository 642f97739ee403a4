#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "muster/base/printable.h"
#include "muster/cli/checkpoint.h"
#include "muster/cli/progress.h"
#include "muster/data/checkpoint/bundle_reader.h"
#include "muster/data/weights/weights.h"

namespace muster::cli {
namespace {

using nlohmann::json;

struct TensorRow {
  std::string name{};
  TensorSpec spec{};
  std::uint64_t bytes = 0;
};

struct TensorTable {
  Path path{};
  WeightFormat format = WeightFormat::kBundle;
  /// Data files of a bundle.
  int num_shards = 0;
  std::vector<TensorRow> rows{};
  std::uint64_t bytes = 0;
  std::int64_t elements = 0;

  void add(TensorRow row) {
    bytes += row.bytes;
    elements += element_count(row.spec.shape).value_or(0);
    rows.push_back(std::move(row));
  }
};

/// String tensors, which are no weights, are shown, too.
TensorTable table_of_bundle(const Path& prefix) {
  const BundleReader bundle(prefix);
  TensorTable table{.path = bundle.prefix(), .num_shards = bundle.num_shards()};
  for (const std::string& name : bundle.names()) {
    table.add({name, bundle.spec(name), bundle.stored_bytes(name)});
  }
  return table;
}

TensorTable table_of(const Path& path) {
  const Weights weights = open_weights(path);
  if (weights.format == WeightFormat::kBundle) return table_of_bundle(weights.path);
  TensorTable table{.path = weights.path, .format = weights.format};
  for (const Weight& weight : weights.tensors) {
    table.add({weight.name, weight.spec, element_bytes(weight)});
  }
  return table;
}

void print_json(const TensorTable& table) {
  json tensors = json::array();
  for (const TensorRow& row : table.rows) {
    tensors.push_back({{"name", row.name},
                       {"dtype", numpy_name(row.spec.type)},
                       {"shape", row.spec.shape},
                       {"bytes", row.bytes}});
  }
  json all{{"prefix", table.path.string()},
           {"format", name_of(table.format)},
           {"tensors", tensors},
           {"total",
            {{"tensors", tensors.size()}, {"elements", table.elements}, {"bytes", table.bytes}}}};
  if (table.format == WeightFormat::kBundle) all["shards"] = table.num_shards;
  fmt::print("{}\n", all.dump(2, ' ', false, json::error_handler_t::replace));
}

void print_text(const TensorTable& table) {
  std::size_t width = std::string_view("name").size();
  for (const TensorRow& row : table.rows) width = std::max(width, printable_line(row.name).size());
  fmt::print("{:<{}}  {:<9}  {:>12}  shape\n", "name", width, "dtype", "bytes");
  for (const TensorRow& row : table.rows) {
    fmt::print("{:<{}}  {:<9}  {:>12}  {}\n", printable_line(row.name), width,
               numpy_name(row.spec.type), row.bytes, shape_text(row.spec.shape));
  }
  fmt::print("{} tensors, {} elements, {} in ", table.rows.size(), table.elements,
             human_bytes(static_cast<double>(table.bytes)));
  if (table.format == WeightFormat::kBundle) {
    fmt::print("{} data file{}\n", table.num_shards, table.num_shards == 1 ? "" : "s");
  } else {
    fmt::print("{}, a {} file\n", table.path.string(), name_of(table.format));
  }
}

}  // namespace

void show_checkpoint(const std::string& path, bool as_json) {
  const TensorTable table = table_of(path);
  as_json ? print_json(table) : print_text(table);
}

}  // namespace muster::cli
