#include "muster/data/records/parse_spec.h"

#include <limits>

#include "muster/base/error.h"

namespace muster {
namespace {

template <typename T>
constexpr FeatureKind kKindOf = FeatureKind::kNone;
template <>
constexpr FeatureKind kKindOf<std::int64_t> = FeatureKind::kInt64;
template <>
constexpr FeatureKind kKindOf<float> = FeatureKind::kFloat;
template <>
constexpr FeatureKind kKindOf<std::string> = FeatureKind::kBytes;
template <>
constexpr FeatureKind kKindOf<std::string_view> = FeatureKind::kBytes;

template <typename Variant>
FeatureKind kind_of(const Variant& lists) {
  return std::visit([]<typename T>(const std::vector<T>&) { return kKindOf<T>; }, lists);
}

std::size_t count_of(const FeatureDefault& values) {
  return std::visit([](const auto& list) { return list.size(); }, values);
}

/// How many values the shape holds.
std::size_t elements(const std::string& key, const std::vector<std::int64_t>& shape) {
  std::uint64_t total = 1;
  for (const std::int64_t dimension : shape) {
    if (dimension < 0) throw InvalidArgument("feature '{}': negative dimension {}", key, dimension);
    if (__builtin_mul_overflow(total, static_cast<std::uint64_t>(dimension), &total)) {
      throw InvalidArgument("feature '{}': the shape holds more values than can be counted", key);
    }
  }
  return total;
}

void check_kind(const std::string& key, FeatureKind kind) {
  if (kind == FeatureKind::kNone) throw InvalidArgument("feature '{}': the spec has no kind", key);
}

void check(const std::string& key, const FixedLen& spec) {
  check_kind(key, spec.kind);
  const std::size_t wanted = elements(key, spec.shape);
  if (!spec.default_value) return;
  if (kind_of(*spec.default_value) != spec.kind) {
    throw InvalidArgument("feature '{}': the default is of kind {}, the feature of kind {}", key,
                          name_of(kind_of(*spec.default_value)), name_of(spec.kind));
  }
  const std::size_t given = count_of(*spec.default_value);
  if (given != wanted && given != 1) {
    throw InvalidArgument("feature '{}': {} default values for a shape of {}", key, given, wanted);
  }
}

void check(const std::string& key, const FixedLenSequence& spec) {
  check_kind(key, spec.kind);
  if (elements(key, spec.shape) == 0) {
    throw InvalidArgument("feature list '{}': a step must have at least one value", key);
  }
}

void check(const std::string& key, const VarLen& spec) { check_kind(key, spec.kind); }

template <typename Specs>
std::vector<std::string> checked_keys(const Specs& specs) {
  std::vector<std::string> keys;
  for (const auto& [key, spec] : specs) {
    std::visit([&name = key](const auto& one) { check(name, one); }, spec);
    keys.push_back(key);
  }
  return keys;
}

[[noreturn]] void fail_missing(const std::string& key, FeatureKind wanted) {
  throw InvalidArgument(
      "feature '{}' is missing: wanted {} values; give its spec a default if it may be absent", key,
      name_of(wanted));
}

[[noreturn]] void fail_missing_list(const std::string& key, FeatureKind wanted) {
  throw InvalidArgument(
      "feature list '{}' is missing: wanted steps of {} values; set allow_missing if it may be "
      "absent",
      key, name_of(wanted));
}

// Whole numbers count as floats: programs that write records from tables keep them as int64.
void check_found_kind(const std::string& key, FeatureKind found, FeatureKind wanted) {
  const bool number = found == FeatureKind::kInt64 && wanted == FeatureKind::kFloat;
  if (found != wanted && !number) {
    throw InvalidArgument("feature '{}' holds {} values, wanted {}", key, name_of(found),
                          name_of(wanted));
  }
}

/// Appends the values of a view, and returns how many.
std::size_t append_values(const FeatureView& view, ParsedColumn& column) {
  return std::visit(
      [&view]<typename T>(std::vector<T>& values) {
        const std::size_t before = values.size();
        if constexpr (std::is_same_v<T, float>) {
          if (view.kind() == FeatureKind::kInt64) {
            std::vector<std::int64_t> whole;
            view.append_to(whole);
            for (const std::int64_t value : whole) values.push_back(static_cast<float>(value));
            return values.size() - before;
          }
        }
        view.append_to(values);
        return values.size() - before;
      },
      column.values);
}

void append_default(const FeatureDefault& from, std::size_t wanted, ParsedColumn& column) {
  std::visit(
      [&]<typename T>(std::vector<T>& values) {
        using Source = std::conditional_t<std::is_same_v<T, std::string_view>, std::string, T>;
        const auto& source = std::get<std::vector<Source>>(from);
        if (source.size() == wanted) {
          values.insert(values.end(), source.begin(), source.end());
        } else {
          values.insert(values.end(), wanted, T(source.front()));
        }
      },
      column.values);
}

void append(const FeatureView& view, const FixedLen& spec, ParsedColumn& column) {
  const std::size_t wanted = elements(column.key, spec.shape);
  if (view.kind() == FeatureKind::kNone) {
    if (!spec.default_value) fail_missing(column.key, spec.kind);
    append_default(*spec.default_value, wanted, column);
    return;
  }
  check_found_kind(column.key, view.kind(), spec.kind);
  const std::size_t found = append_values(view, column);
  if (found != wanted) {
    throw InvalidArgument("feature '{}' holds {} {} values, wanted {}", column.key, found,
                          name_of(spec.kind), wanted);
  }
}

void append(const FeatureView& view, const VarLen& spec, ParsedColumn& column) {
  if (view.kind() != FeatureKind::kNone) check_found_kind(column.key, view.kind(), spec.kind);
  const auto added = static_cast<std::int64_t>(append_values(view, column));
  column.row_splits.push_back(column.row_splits.back() + added);
}

void append_steps(bool present, std::span<const FeatureView> steps, const FixedLenSequence& spec,
                  ParsedColumn& column) {
  if (!present && !spec.allow_missing) fail_missing_list(column.key, spec.kind);
  const std::size_t wanted = elements(column.key, spec.shape);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    check_found_kind(column.key, steps[i].kind(), spec.kind);
    const std::size_t found = append_values(steps[i], column);
    if (found != wanted) {
      throw InvalidArgument("feature list '{}' holds {} {} values in step {}, wanted {}",
                            column.key, found, name_of(spec.kind), i, wanted);
    }
  }
  column.row_splits.push_back(column.row_splits.back() + static_cast<std::int64_t>(steps.size()));
}

void append_steps(bool /*present*/, std::span<const FeatureView> steps, const VarLen& spec,
                  ParsedColumn& column) {
  for (const auto& step : steps) {
    if (step.kind() != FeatureKind::kNone) check_found_kind(column.key, step.kind(), spec.kind);
    const auto added = static_cast<std::int64_t>(append_values(step, column));
    column.step_splits.push_back(column.step_splits.back() + added);
  }
  column.row_splits.push_back(column.row_splits.back() + static_cast<std::int64_t>(steps.size()));
}

ParsedColumn make_column(const std::string& key, FeatureKind kind) {
  ParsedColumn column{.key = key};
  if (kind == FeatureKind::kFloat) column.values = std::vector<float>();
  if (kind == FeatureKind::kBytes) column.values = std::vector<std::string_view>();
  return column;
}

ParsedColumn make_column(const std::string& key, const FixedLen& spec) {
  return make_column(key, spec.kind);
}

ParsedColumn make_column(const std::string& key, const VarLen& spec) {
  ParsedColumn column = make_column(key, spec.kind);
  column.row_splits = {0};
  return column;
}

ParsedColumn make_list_column(const std::string& key, const FixedLenSequence& spec) {
  ParsedColumn column = make_column(key, spec.kind);
  column.row_splits = {0};
  return column;
}

ParsedColumn make_list_column(const std::string& key, const VarLen& spec) {
  ParsedColumn column = make_column(key, spec);
  column.step_splits = {0};
  return column;
}

ParsedColumns make_columns(const FeatureSpecs& specs) {
  ParsedColumns out;
  for (const auto& [key, spec] : specs) {
    out.columns.push_back(
        std::visit([&name = key](const auto& one) { return make_column(name, one); }, spec));
  }
  return out;
}

void keep_owner(const FeatureView& view, ParsedColumns& out) {
  if (view.owner()) out.owners.push_back(view.owner());
}

/// The columns of the specs come first in `out`.
void append_features(const std::vector<FeatureView>& views, const FeatureSpecs& specs,
                     ParsedColumns& out) {
  for (std::size_t i = 0; i < specs.size(); ++i) {
    keep_owner(views[i], out);
    std::visit([&](const auto& spec) { append(views[i], spec, out.columns[i]); }, specs[i].second);
  }
}

/// Sizes of a column before an Example was appended, to go back to after an error.
struct Mark {
  explicit Mark(const ParsedColumn& column)
      : values(std::visit([](const auto& list) { return list.size(); }, column.values)),
        rows(column.row_splits.size()),
        steps(column.step_splits.size()) {}

  void restore(ParsedColumn& column) const {
    std::visit([this](auto& list) { list.resize(values); }, column.values);
    column.row_splits.resize(rows);
    column.step_splits.resize(steps);
  }

  std::size_t values, rows, steps;
};

template <typename Append>
void append_or_restore(ParsedColumns& out, Append append_row) {
  const std::vector<Mark> marks(out.columns.begin(), out.columns.end());
  try {
    append_row();
    ++out.rows;
  } catch (...) {
    for (std::size_t i = 0; i < marks.size(); ++i) marks[i].restore(out.columns[i]);
    throw;
  }
}

template <typename Decoder>
ParsedColumns decode_all(const Decoder& decoder, std::span<const std::string_view> examples,
                         const ExampleName& name) {
  ParsedColumns out = decoder.empty_columns();
  for (std::size_t row = 0; row < examples.size(); ++row) {
    try {
      decoder.append(examples[row], out);
    } catch (Error& error) {
      error.add_context(name ? name(row) : fmt::format("example {} of the batch", row));
      throw;
    }
  }
  return out;
}

template <typename T>
std::span<const T> values_of(const ParsedColumn& column) {
  if (const auto* values = std::get_if<std::vector<T>>(&column.values)) return *values;
  throw InvalidArgument("column '{}' holds {} values, not {}", column.key,
                        name_of(kind_of(column.values)), name_of(kKindOf<T>));
}

}  // namespace

std::span<const std::int64_t> ParsedColumn::int64s() const {
  return values_of<std::int64_t>(*this);
}
std::span<const float> ParsedColumn::floats() const { return values_of<float>(*this); }
std::span<const std::string_view> ParsedColumn::bytes() const {
  return values_of<std::string_view>(*this);
}

const ParsedColumn& ParsedColumns::operator[](std::string_view key) const {
  for (const auto& column : columns) {
    if (column.key == key) return column;
  }
  throw NotFound("no column '{}'", key);
}

ExampleDecoder::ExampleDecoder(FeatureSpecs specs)
    : specs_(std::move(specs)), parser_(checked_keys(specs_)) {}

ParsedColumns ExampleDecoder::empty_columns() const { return make_columns(specs_); }

void ExampleDecoder::append(std::string_view example, ParsedColumns& out) const {
  thread_local ExampleView view;  // kept, so that a batch does not allocate it for every Example
  parser_.parse(example, view);
  append_or_restore(out, [&] { append_features(view, specs_, out); });
}

ParsedColumns ExampleDecoder::decode(std::span<const std::string_view> examples,
                                     const ExampleName& name) const {
  return decode_all(*this, examples, name);
}

SequenceExampleDecoder::SequenceExampleDecoder(FeatureSpecs context_specs, SequenceSpecs list_specs)
    : context_specs_(std::move(context_specs)),
      list_specs_(std::move(list_specs)),
      parser_(checked_keys(context_specs_), checked_keys(list_specs_)) {}

ParsedColumns SequenceExampleDecoder::empty_columns() const {
  ParsedColumns out = make_columns(context_specs_);
  for (const auto& [key, spec] : list_specs_) {
    out.columns.push_back(
        std::visit([&name = key](const auto& one) { return make_list_column(name, one); }, spec));
  }
  return out;
}

void SequenceExampleDecoder::append(std::string_view example, ParsedColumns& out) const {
  SequenceExampleView view;
  parser_.parse(example, view);
  append_or_restore(out, [&] {
    append_features(view.context, context_specs_, out);
    for (std::size_t i = 0; i < list_specs_.size(); ++i) {
      ParsedColumn& column = out.columns[context_specs_.size() + i];
      const auto steps = view.lists[i].steps();
      for (const auto& step : steps) keep_owner(step, out);
      std::visit(
          [&](const auto& spec) { append_steps(view.lists[i].present(), steps, spec, column); },
          list_specs_[i].second);
    }
  });
}

ParsedColumns SequenceExampleDecoder::decode(std::span<const std::string_view> examples,
                                             const ExampleName& name) const {
  return decode_all(*this, examples, name);
}

ParsedColumns parse_example(std::string_view example, const FeatureSpecs& specs) {
  const ExampleParser parser(checked_keys(specs));
  ParsedColumns out = make_columns(specs);
  append_features(parser.parse(example), specs, out);
  out.rows = 1;
  return out;
}

}  // namespace muster
