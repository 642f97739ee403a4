#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace muster {

/// Collects named features and writes them as a serialised tf.Example. The same features give the
/// same bytes, whatever the order of the calls: keys are sorted, as in protobuf's deterministic
/// mode.
class ExampleBuilder {
 public:
  /// Each call appends to the key's list and starts it if need be; an empty span leaves an empty
  /// list. Throws InvalidArgument when the key already has values of another kind.
  ExampleBuilder& add_bytes(std::string_view key, std::string_view value);
  ExampleBuilder& add_bytes(std::string_view key, std::span<const std::string_view> values);
  ExampleBuilder& add_int(std::string_view key, std::int64_t value);
  ExampleBuilder& add_ints(std::string_view key, std::span<const std::int64_t> values);
  ExampleBuilder& add_float(std::string_view key, float value);
  ExampleBuilder& add_floats(std::string_view key, std::span<const float> values);

  std::string serialize() const;
  /// Appends the serialised Example to `out`, for a buffer that is used again.
  void serialize_to(std::string& out) const;
  void clear() { features_.clear(); }
  bool empty() const { return features_.empty(); }

 private:
  friend class SequenceExampleBuilder;
  using Values =
      std::variant<std::vector<std::string>, std::vector<float>, std::vector<std::int64_t>>;
  using Features = std::map<std::string, Values, std::less<>>;

  template <typename T>
  std::vector<T>& list(std::string_view key);
  static std::size_t features_bytes(const Features& features);
  static void write_features(const Features& features, std::string& out);

  Features features_;
};

/// The same for a tf.SequenceExample: a context, and lists of features with one entry a step.
class SequenceExampleBuilder {
 public:
  ExampleBuilder& context() { return context_; }

  /// Appends one step, which holds these values, to the feature list of this key.
  SequenceExampleBuilder& add_step(std::string_view key, std::span<const std::string_view> values);
  SequenceExampleBuilder& add_step(std::string_view key, std::span<const std::int64_t> values);
  SequenceExampleBuilder& add_step(std::string_view key, std::span<const float> values);

  std::string serialize() const;

 private:
  ExampleBuilder context_;
  std::map<std::string, std::vector<ExampleBuilder::Values>, std::less<>> lists_;
};

}  // namespace muster
