#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "muster/saved_model/graph/saved_model.h"
#include "muster/saved_model/graph/tensor_values.h"

/// From a request to tensors and from tensors to an answer, as Cloud ML Engine and TensorFlow
/// Serving have it.
namespace muster::serving {

/// The inputs or outputs of a signature by name.
using Tensors = graph::TensorValues;

/// Instances to predict, one JSON value each: an object of named inputs, or the bare value
/// of the only input. The texts of errors are those of `gcloud ml-engine local predict` where it
/// has one.
class Instances {
 public:
  /// One JSON value a line; a byte order mark may come first. Throws InvalidArgument for empty
  /// lines, lines that are no JSON (with the line's number), and for no line at all.
  static Instances from_json_lines(std::string_view text);
  /// One string a line. Throws as above.
  static Instances from_text_lines(std::string_view text);
  /// {"instances": [...], "signature_name": "..."}; the name may be missing. Throws
  /// InvalidArgument.
  static Instances from_request(std::string_view text);

  ~Instances();
  Instances(Instances&&) noexcept;
  Instances& operator=(Instances&&) noexcept;

  std::size_t size() const;
  /// The signature that the request names; empty when it names none.
  const std::string& signature_name() const;

  /// The input tensors of a signature, one row an instance. {"b64": "..."} is bytes wherever a
  /// string is expected. An input that no instance has gets the signature's default value, if there
  /// is one. Throws InvalidArgument for inputs that are missing, unknown, ragged, or of another
  /// type or shape, with the input and the number of the instance, counted from 1.
  Tensors tensors(const graph::SignatureDef& signature) const;

 private:
  struct Impl;
  explicit Instances(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::serving
