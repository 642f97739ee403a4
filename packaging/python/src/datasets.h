#pragma once

// Input pipelines: their stages are C++'s, except where a function or generator of Python's is
// given.
#include "packaging/python/src/bindings.h"

namespace muster::python {

/// Records of files, and what names one of them in errors.
struct Records {
  Dataset<Record> data;
  std::function<std::string(std::string_view row)> name{};
};

struct RecordBatches {
  Dataset<std::vector<Record>> data;
  std::function<std::string(std::string_view row)> name{};
};

/// Rows of arrays in memory, by their numbers.
struct Rows {
  Dataset<std::int64_t> data;
  std::shared_ptr<const Batch> table{};
};

struct Batches {
  Dataset<Batch> data;
};

/// An input function of Python's: it returns Batches, or anything that can be iterated and gives
/// batches, such as a generator.
InputFn to_input_fn(py::object function);

/// Specs of the features of tf.Examples by name.
FeatureSpecs to_specs(const py::dict& specs);

}  // namespace muster::python
