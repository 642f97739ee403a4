#include "packaging/python/src/datasets.h"

#include <ATen/ops/index_select.h>

#include "packaging/python/src/arrays.h"

namespace muster::python {
namespace {

// ------------------------------------------------------------------------------ rows in memory

StringColumn select_strings(const StringColumn& column, const std::vector<std::int64_t>& rows) {
  std::vector<std::int64_t> shape = column.shape();
  shape[0] = std::ssize(rows);
  std::vector<std::string_view> selected;
  selected.reserve(rows.size());
  for (const std::int64_t row : rows) {
    const auto strings = column.row(row);
    selected.insert(selected.end(), strings.begin(), strings.end());
  }
  return {std::move(selected), std::move(shape), std::make_shared<const StringColumn>(column)};
}

Features select_rows(const Features& table, const std::vector<std::int64_t>& rows) {
  const at::Tensor places = tensor_of(rows, {std::ssize(rows)});
  Features selected;
  for (const auto& [name, value] : table) {
    if (const auto* tensor = std::get_if<at::Tensor>(&value)) {
      selected.add(name, tensor->index_select(0, places));
    } else {
      selected.add(name, select_strings(std::get<StringColumn>(value), rows));
    }
  }
  return selected;
}

void check_dense(const Features& table) {
  for (const auto& [name, value] : table) {
    const auto* strings = std::get_if<StringColumn>(&value);
    if (std::holds_alternative<RaggedColumn>(value) ||
        (strings != nullptr && strings->is_ragged())) {
      throw InvalidArgument("from_numpy: {} is ragged; give batches with it by a generator", name);
    }
  }
}

Rows from_numpy(const py::dict& features, const py::object& labels) {
  Batch table = to_batch(labels.is_none() ? py::object(features)
                                          : py::object(py::make_tuple(features, labels)));
  check_dense(table.features);
  check_dense(table.labels);
  const auto rows = static_cast<std::uint64_t>(table.size());
  return {range(rows), std::make_shared<const Batch>(std::move(table))};
}

Batches batch_rows(const Rows& rows, std::size_t size, bool drop_remainder) {
  const auto collate = [table = rows.table](std::vector<std::int64_t> places) {
    return Batch{.features = select_rows(table->features, places),
                 .labels = select_rows(table->labels, places)};
  };
  return {rows.data.batch(size, collate, drop_remainder ? Remainder::kDrop : Remainder::kKeep)};
}

// ------------------------------------------------------------------------------ Python's batches

/// Calls Python from a pipeline, whose failures are Errors that say which element it was.
template <typename Call>
auto call_python(Call call) {
  const py::gil_scoped_acquire locked;
  try {
    return call();
  } catch (const py::error_already_set& failure) {
    throw Error(ErrorCode::kUnknown, failure.what());
  } catch (const py::builtin_exception& failure) {
    throw InvalidArgument("{}", failure.what());
  }
}

/// Batches of what Python iterates over, by their numbers: an earlier one than the next iterates
/// anew, as a resumed run does. Copies share the iterator.
class IteratedBatches {
 public:
  explicit IteratedBatches(SharedObject start) : state_(std::make_shared<State>()) {
    state_->start = std::move(start);
  }

  std::optional<Batch> operator()(std::uint64_t number) const {
    return call_python([&] { return batch_at(number); });
  }

 private:
  struct State {
    SharedObject start;
    SharedObject iterator;
    std::uint64_t next = 0;
  };

  std::optional<Batch> batch_at(std::uint64_t number) const {
    if (!state_->iterator || number < state_->next) restart();
    while (state_->next < number) {
      if (!take()) return std::nullopt;
    }
    const py::object element = take();
    if (!element) return std::nullopt;
    return to_batch(element);
  }
  void restart() const {
    state_->iterator = share(py::iter((*state_->start)()));
    state_->next = 0;
  }
  py::object take() const {
    PyObject* element = PyIter_Next(state_->iterator->ptr());
    if (element == nullptr && PyErr_Occurred() != nullptr) throw py::error_already_set();
    if (element != nullptr) ++state_->next;
    return py::reinterpret_steal<py::object>(element);
  }

  std::shared_ptr<State> state_;
};

Batches from_generator_of(py::object start) {
  return {generate(IteratedBatches(share(std::move(start))))};
}

Batches map_batches(const Batches& batches, py::object function, std::size_t parallelism) {
  const auto call = [function = share(std::move(function))](Batch batch) {
    return call_python([&] { return to_batch((*function)(*from_batch(batch))); });
  };
  return {batches.data.map(call, {.parallelism = parallelism})};
}

// ------------------------------------------------------------------------------------- records

Records make_csv_rows(const Paths& files, std::uint64_t skip_header_lines, bool skip_empty_lines,
                      bool use_quotes) {
  const CsvSourceOptions options{.skip_header_lines = skip_header_lines,
                                 .use_quotes = use_quotes,
                                 .skip_empty_lines = skip_empty_lines};
  const auto open = [options](const Path& path) { return open_csv(path, options); };
  return {csv_rows(list_of(files), options), find_row_in(list_of(files), open)};
}

RecordBatches batch_records(const Records& records, std::size_t size, bool drop_remainder) {
  return {records.data.batch(size, drop_remainder ? Remainder::kDrop : Remainder::kKeep),
          records.name};
}

CsvField blank_or(const std::string& name, const py::object& value) {
  if (value.is_none()) return CsvField::string(name);
  if (py::isinstance<py::str>(value)) return CsvField::string(name, value.cast<std::string>());
  if (py::isinstance<py::float_>(value)) return CsvField::float32(name, value.cast<float>());
  if (py::isinstance<py::int_>(value)) return CsvField::int32(name, value.cast<std::int32_t>());
  if (py::isinstance<py::ellipsis>(value)) return CsvField::ignored(name);
  throw py::type_error(
      "the field " + name +
      " of CSV rows must be an int, a float or a str, which blanks become; None for "
      "a required string, or ... for one that is not read");
}

/// Either fields, or a dict of what blanks become, whose types are those of the fields.
std::vector<CsvField> to_fields(const py::object& fields) {
  if (!py::isinstance<py::dict>(fields)) return fields.cast<std::vector<CsvField>>();
  std::vector<CsvField> made;
  for (const auto& [name, value] : fields.cast<py::dict>()) {
    made.push_back(
        blank_or(py::cast<std::string>(name), py::reinterpret_borrow<py::object>(value)));
  }
  return made;
}

Batches parse_csv_batches(const RecordBatches& rows, const py::kwargs& given) {
  ParseCsvOptions options{.name = rows.name};
  py::object fields = py::none();
  std::string delimiter = ",";
  std::size_t parallelism = 1;
  std::vector<std::shared_ptr<ColumnSet>> columns;
  Arguments("parse_csv", given)
      .take_required("fields", fields)
      .take("label", options.label.field)
      .take("label_vocabulary", options.label.vocabulary)
      .take("label_ending", options.label.ending)
      .take("label_may_be_blank", options.label.may_be_blank)
      .take("delimiter", delimiter)
      .take("use_quotes", options.csv.use_quotes)
      .take("strip_blanks", options.csv.strip_blanks)
      .take("na_value", options.csv.na_value)
      .take("columns", columns)
      .take("parallelism", parallelism)
      .done();
  if (delimiter.size() != 1) throw InvalidArgument("delimiter must be one letter: {}", delimiter);
  options.csv.delimiter = delimiter[0];
  options.fields = to_fields(fields);
  options.columns = {columns.begin(), columns.end()};
  return {rows.data.map(parse_csv(std::move(options)), {.parallelism = parallelism})};
}

Batches parse_example_batches(const Records& records, std::size_t size, const py::dict& specs,
                              std::vector<std::string> labels, bool drop_remainder) {
  return {records.data.batch(size, parse_examples(to_specs(specs), std::move(labels)),
                             drop_remainder ? Remainder::kDrop : Remainder::kKeep)};
}

// ----------------------------------------------------------------------------------- bindings

/// The same recipe over other data.
template <typename Stream, typename Data>
Stream with_data(Stream stream, Data data) {
  stream.data = std::move(data);
  return stream;
}

/// Stages that streams of every kind have.
template <typename Stream>
py::class_<Stream> bind_stream(py::module_& module, const char* name, const char* doc) {
  py::class_<Stream> stream(module, name, doc);
  stream
      .def(
          "shuffle",
          [](const Stream& self, std::size_t buffer_size, std::uint64_t seed) {
            return with_data(self, self.data.shuffle(buffer_size, seed));
          },
          py::arg("buffer_size"), py::arg("seed"))
      .def(
          "shard",
          [](const Stream& self, const InputContext& context) {
            return with_data(self, self.data.shard(context));
          },
          py::arg("context"))
      .def(
          "repeat",
          [](const Stream& self, std::optional<std::uint64_t> count) {
            return with_data(self, self.data.repeat(count));
          },
          py::arg("count") = py::none())
      .def(
          "take",
          [](const Stream& self, std::uint64_t count) {
            return with_data(self, self.data.take(count));
          },
          py::arg("count"))
      .def(
          "skip",
          [](const Stream& self, std::uint64_t count) {
            return with_data(self, self.data.skip(count));
          },
          py::arg("count"));
  return stream;
}

/// A pass over batches in Python.
class Pass {
 public:
  explicit Pass(const Batches& batches) : iterator_(batches.data.iterate()) {}

  py::tuple next() {
    auto batch = next_batch();
    if (!batch) throw py::stop_iteration();
    return from_batch(*batch);
  }

 private:
  std::optional<Batch> next_batch() {
    const py::gil_scoped_release unlocked;
    return iterator_->next();
  }

  std::unique_ptr<Iterator<Batch>> iterator_;
};

void bind_batches(py::module_& module) {
  py::class_<Pass, UnlockedPtr<Pass>>(module, "BatchIterator")
      .def("__iter__", [](py::object self) { return self; })
      .def("__next__", &Pass::next);
  bind_stream<Batches>(module, "Batches", "A stream of batches: features and labels.")
      .def("map", &map_batches, py::arg("function"), py::arg("parallelism") = 1,
           "Batches that a function of (features, labels), two dicts of arrays, returns.")
      .def(
          "prefetch",
          [](const Batches& self, std::size_t count) { return Batches{self.data.prefetch(count)}; },
          py::arg("count"), "Makes so many batches ahead, in a thread.")
      .def(
          "cache", [](const Batches& self) { return Batches{self.data.cache()}; },
          "Keeps the batches of the first pass in memory.")
      .def("__iter__", [](const Batches& self) { return UnlockedPtr<Pass>(new Pass(self)); });
  module.def("from_generator", &from_generator_of, py::arg("start"),
             "Batches that start() yields: dicts of features, or pairs of features and labels.");
}

void bind_rows(py::module_& module) {
  bind_stream<Rows>(module, "Rows", "Rows of arrays.")
      .def("batch", &batch_rows, py::arg("size"), py::arg("drop_remainder") = false)
      .def("__len__", [](const Rows& self) { return self.data.size().value_or(0); });
  module.def("from_numpy", &from_numpy, py::arg("features"), py::arg("labels") = py::none(),
             "The rows of arrays by name, whose memory is not copied.");
}

void bind_csv_fields(py::module_& module) {
  py::class_<CsvField>(module, "CsvField", "A field of CSV rows, and what a blank becomes.")
      .def_static("int32", &CsvField::int32, py::arg("name"), py::arg("default") = py::none())
      .def_static("int64", &CsvField::int64, py::arg("name"), py::arg("default") = py::none())
      .def_static("float32", &CsvField::float32, py::arg("name"), py::arg("default") = py::none())
      .def_static("float64", &CsvField::float64, py::arg("name"), py::arg("default") = py::none())
      .def_static("string", &CsvField::string, py::arg("name"), py::arg("default") = py::none())
      .def_static("ignored", &CsvField::ignored, py::arg("name"));
}

void bind_record_streams(py::module_& module) {
  py::class_<RecordBatches>(module, "RecordBatches", "Batches of records that are not parsed yet.")
      .def("parse_csv", &parse_csv_batches);
  bind_stream<Records>(module, "Records", "The records of files, one after the other.")
      .def(
          "global_shuffle",
          [](const Records& self, std::uint64_t seed) {
            return with_data(self, self.data.global_shuffle(seed));
          },
          py::arg("seed"))
      .def("batch", &batch_records, py::arg("size"), py::arg("drop_remainder") = false)
      .def("parse_examples", &parse_example_batches, py::arg("size"), py::arg("specs"),
           py::arg("label_names") = std::vector<std::string>{kLabel},
           py::arg("drop_remainder") = false, "Batches of tf.Examples.");
  module.def(
      "tfrecords", [](const Paths& files) { return Records{tfrecords(list_of(files))}; },
      py::arg("files"));
  module.def(
      "text_lines", [](const Paths& files) { return Records{text_lines(list_of(files))}; },
      py::arg("files"));
  module.def("csv_rows", &make_csv_rows, py::arg("files"), py::arg("skip_header_lines") = 0,
             py::arg("skip_empty_lines") = false, py::arg("use_quotes") = true);
}

void bind_specs(py::module_& module) {
  py::enum_<FeatureKind>(module, "FeatureKind")
      .value("BYTES", FeatureKind::kBytes)
      .value("FLOAT", FeatureKind::kFloat)
      .value("INT64", FeatureKind::kInt64);
  py::class_<FixedLen>(module, "FixedLen", "A feature with as many values in every tf.Example.")
      .def(py::init<FeatureKind, std::vector<std::int64_t>, std::optional<FeatureDefault>>(),
           py::arg("kind"), py::arg("shape") = std::vector<std::int64_t>{},
           py::arg("default_value") = py::none());
  py::class_<VarLen>(module, "VarLen", "A feature with any number of values.")
      .def(py::init<FeatureKind>(), py::arg("kind"));
  module.def(
      "make_parse_example_spec",
      [](const FeatureColumnList& columns) {
        return py::dict(py::cast(make_parse_example_spec(columns)));
      },
      py::arg("columns"), "The features that the columns read, and what they are in a tf.Example.");
}

}  // namespace

InputFn to_input_fn(py::object function) {
  return [function = share(std::move(function))](const InputContext& context) {
    const py::gil_scoped_acquire locked;
    const py::object result = (*function)(context);
    if (py::isinstance<Batches>(result)) return result.cast<Batches>().data;
    const auto again = py::cpp_function([function, context] { return (*function)(context); });
    return from_generator_of(again).data;
  };
}

FeatureSpecs to_specs(const py::dict& specs) {
  return py::list(specs.attr("items")()).cast<FeatureSpecs>();
}

void bind_datasets(py::module_& module) {
  py::class_<InputContext>(module, "InputContext", "Which part of the data to read, and for what.")
      .def_property_readonly(
          "mode", [](const InputContext& context) { return std::string(name_of(context.mode())); })
      .def_property_readonly(
          "training", [](const InputContext& context) { return context.mode() == Mode::kTrain; })
      .def_property_readonly("num_shards", &InputContext::num_shards)
      .def_property_readonly("shard_index", &InputContext::shard_index)
      .def_property_readonly("seed", &InputContext::seed);
  bind_specs(module);
  bind_csv_fields(module);
  bind_batches(module);
  bind_rows(module);
  bind_record_streams(module);
  module.def(
      "write_synthetic_census",
      [](const Path& folder, std::size_t train, std::size_t test) {
        const auto files = write_synthetic_census(folder, {.train = train, .test = test});
        return py::make_tuple(files.train.path, files.test.path);
      },
      py::arg("folder"), py::arg("train") = SyntheticCensusOptions().train,
      py::arg("test") = SyntheticCensusOptions().test,
      "Writes made-up people, adult.data.csv and adult.test.csv, and returns the two paths.");
}

}  // namespace muster::python
