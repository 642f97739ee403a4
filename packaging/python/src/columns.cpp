// Feature columns, and sets of them that input pipelines prepare.
#include "packaging/python/src/arrays.h"

namespace muster::python {
namespace {

Combiner combiner_named(const std::string& name) {
  if (name == "mean") return Combiner::kMean;
  if (name == "sqrtn") return Combiner::kSqrtN;
  if (name == "sum") return Combiner::kSum;
  throw InvalidArgument("combiner must be mean, sqrtn or sum: {}", name);
}

FeatureColumn numeric(const std::string& key, const py::kwargs& given) {
  NumericColumnOptions options;
  std::variant<std::monostate, float, std::vector<float>> default_value;
  Arguments("numeric_column", given)
      .take("shape", options.shape)
      .take("default_value", default_value)
      .done();
  if (const auto* one = std::get_if<float>(&default_value)) options.default_value = {*one};
  if (auto* all = std::get_if<std::vector<float>>(&default_value)) options.default_value = *all;
  return numeric_column(key, std::move(options));
}

FeatureColumn with_vocabulary(
    const std::string& key,
    const std::variant<std::vector<std::int64_t>, std::vector<std::string>>& vocabulary,
    std::int64_t default_value, std::int64_t num_oov_buckets) {
  const VocabularyOptions options{default_value, num_oov_buckets};
  return std::visit(
      [&](const auto& words) {
        return categorical_column_with_vocabulary_list(key, words, options);
      },
      vocabulary);
}

FeatureColumn with_vocabulary_file(const std::string& key, const Path& file,
                                   std::optional<std::int64_t> vocabulary_size,
                                   std::int64_t default_value, std::int64_t num_oov_buckets) {
  return categorical_column_with_vocabulary_file(key, file, vocabulary_size, CategoryType::kString,
                                                 {default_value, num_oov_buckets});
}

EmbeddingColumnOptions embedding_options(const char* function, const py::kwargs& given) {
  EmbeddingColumnOptions options;
  std::string combiner = "mean";
  Arguments(function, given)
      .take("combiner", combiner)
      .take("initial_stddev", options.initial_stddev)
      .take("checkpoint_to_load_from", options.checkpoint_to_load_from)
      .take("tensor_name_in_checkpoint", options.tensor_name_in_checkpoint)
      .take("max_norm", options.max_norm)
      .take("trainable", options.trainable)
      .done();
  options.combiner = combiner_named(combiner);
  return options;
}

FeatureColumn embedding(const FeatureColumn& categorical, std::int64_t dimension,
                        const py::kwargs& given) {
  return embedding_column(categorical, dimension, embedding_options("embedding_column", given));
}

FeatureColumnList shared_embeddings(const FeatureColumnList& categoricals, std::int64_t dimension,
                                    const py::kwargs& given) {
  return shared_embedding_columns(categoricals, dimension,
                                  embedding_options("shared_embedding_columns", given));
}

void bind_categorical(py::module_& module) {
  module.def(
      "categorical_column_with_hash_bucket",
      [](const std::string& key, std::int64_t size, bool integers) {
        return categorical_column_with_hash_bucket(
            key, size, integers ? CategoryType::kInt : CategoryType::kString);
      },
      py::arg("key"), py::arg("hash_bucket_size"), py::arg("integers") = false);
  module.def("categorical_column_with_vocabulary_list", &with_vocabulary, py::arg("key"),
             py::arg("vocabulary"), py::arg("default_value") = -1, py::arg("num_oov_buckets") = 0);
  module.def("categorical_column_with_vocabulary_file", &with_vocabulary_file, py::arg("key"),
             py::arg("file"), py::arg("vocabulary_size") = py::none(),
             py::arg("default_value") = -1, py::arg("num_oov_buckets") = 0);
  module.def("categorical_column_with_identity", &categorical_column_with_identity, py::arg("key"),
             py::arg("num_buckets"), py::arg("default_value") = py::none());
  module.def("weighted_categorical_column", &weighted_categorical_column, py::arg("categorical"),
             py::arg("weight_key"));
  module.def("crossed_column", &crossed_column, py::arg("keys"), py::arg("hash_bucket_size"),
             py::arg("hash_key") = py::none());
}

}  // namespace

void bind_columns(py::module_& module) {
  py::class_<FeatureColumn>(module, "FeatureColumn", "What a model reads of raw features.")
      .def_property_readonly("name", &FeatureColumn::name)
      .def("__repr__", [](const FeatureColumn& column) {
        return "<muster.FeatureColumn " + column.name() + ">";
      });
  bind_categorical(module);
  module.def("numeric_column", &numeric, py::arg("key"));
  module.def("bucketized_column", &bucketized_column, py::arg("source"), py::arg("boundaries"));
  module.def("indicator_column", &indicator_column, py::arg("categorical"));
  module.def("embedding_column", &embedding, py::arg("categorical"), py::arg("dimension"));
  module.def("shared_embedding_columns", &shared_embeddings, py::arg("categoricals"),
             py::arg("dimension"));
  py::class_<ColumnSet, std::shared_ptr<ColumnSet>>(
      module, "ColumnSet", "Columns whose ids and numbers are made beside training.")
      .def(py::init([](FeatureColumnList columns, bool linear) {
             return std::make_shared<ColumnSet>(
                 std::move(columns), linear ? ColumnUse::kLinear : ColumnUse::kInputLayer);
           }),
           py::arg("columns"), py::arg("linear") = false);
}

}  // namespace muster::python
