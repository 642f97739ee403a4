#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

/// Type of a feature's values; kNone for one that is absent or was written without a list.
enum class FeatureKind : std::uint8_t { kNone, kBytes, kFloat, kInt64 };

/// "none", "bytes", "float", "int64".
std::string_view name_of(FeatureKind kind);

/// One feature inside a serialised Example, which must outlive this view: nothing is copied or
/// decoded before it is asked for. Asking for values of another kind than kind() gives none of
/// them. Every function that walks the values throws DataLoss, with the offset, where they are
/// damaged.
class FeatureView {
 public:
  FeatureView() = default;

  FeatureKind kind() const { return kind_; }
  /// How many values there are. Walks the list, except for floats written packed in one piece.
  std::size_t count() const;

  /// The first string, or nothing at all (an empty view) where there is none: what a feature with
  /// one value needs.
  std::string_view first_bytes() const;
  /// The first integer. Throws DataLoss where there is none.
  std::int64_t first_int64() const;
  /// The first float. Throws DataLoss where there is none.
  float first_float() const;

  /// Appends all values, decoded. The strings are views into the serialised Example.
  void append_to(std::vector<std::string_view>& out) const;
  void append_to(std::vector<std::int64_t>& out) const;
  void append_to(std::vector<float>& out) const;

  /// Fills `out` and returns how many values there are in all, which may be more than fit.
  std::size_t copy_to(std::span<std::string_view> out) const;
  std::size_t copy_to(std::span<std::int64_t> out) const;
  std::size_t copy_to(std::span<float> out) const;

  /// Owner of memory that strings of this feature need beside the serialised Example: null, unless
  /// the feature was written in several pieces, which protobuf merges.
  std::shared_ptr<const void> owner() const { return merged_; }

 private:
  friend class FeatureReader;

  FeatureKind kind_ = FeatureKind::kNone;
  /// The payload of the BytesList, FloatList or Int64List.
  std::string_view list_{};
  /// Where list_ starts in the serialised message, for errors.
  std::size_t offset_ = 0;
  /// Only where a feature was written in several pieces, which protobuf merges: the pieces
  /// together.
  std::shared_ptr<std::string> merged_{};
};

/// The steps of one feature list of a SequenceExample, which must outlive this view.
class FeatureListView {
 public:
  /// Whether the SequenceExample has this list at all; an empty list is present.
  bool present() const { return present_; }
  /// One view a step. Throws DataLoss, with the offset, on damage.
  std::vector<FeatureView> steps() const;

 private:
  friend class FeatureReader;

  bool present_ = false;
  std::string_view list_{};
  std::size_t offset_ = 0;
  std::shared_ptr<std::string> merged_{};
};

/// The wanted features of one Example, in the order of the parser's keys.
using ExampleView = std::vector<FeatureView>;

/// Finds wanted features in serialised tf.Examples without building messages: no allocation and no
/// hashing. Follows protobuf: unknown fields are passed over, of a key written twice the last one
/// counts. Safe to use from several threads, each with a view of its own.
class ExampleParser {
 public:
  /// Throws InvalidArgument when a key occurs twice.
  explicit ExampleParser(std::vector<std::string> keys);

  std::span<const std::string> keys() const { return keys_; }

  /// Sets `out` to one view a key; it is a parameter so that a loop allocates it once.
  /// Throws DataLoss, with the byte offset, when these bytes are no Example.
  void parse(std::string_view example, ExampleView& out) const;
  ExampleView parse(std::string_view example) const;

 private:
  std::vector<std::string> keys_;
};

struct SequenceExampleView {
  std::vector<FeatureView> context{};
  std::vector<FeatureListView> lists{};
};

/// The same for tf.SequenceExamples.
class SequenceExampleParser {
 public:
  SequenceExampleParser(std::vector<std::string> context_keys, std::vector<std::string> list_keys);

  std::span<const std::string> context_keys() const { return context_keys_; }
  std::span<const std::string> list_keys() const { return list_keys_; }

  void parse(std::string_view example, SequenceExampleView& out) const;

 private:
  std::vector<std::string> context_keys_;
  std::vector<std::string> list_keys_;
};

/// The keys of all features of an Example, sorted, each once. Throws DataLoss.
std::vector<std::string> example_keys(std::string_view example);

/// The keys of a SequenceExample's context and feature lists, sorted, each once. Throws DataLoss.
struct SequenceExampleKeys {
  std::vector<std::string> context{};
  std::vector<std::string> lists{};
};
SequenceExampleKeys sequence_example_keys(std::string_view example);

}  // namespace muster
