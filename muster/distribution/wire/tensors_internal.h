#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "muster/distribution/wire/codec_internal.h"
#include "muster/nn/model/row_gradient.h"
#include "muster/nn/optim/updater.h"
#include "muster/nn/optim/variables.h"

// Tensors as fields of messages. Sent tensors are views of the memory of the message's creator;
// received tensors keep the message's body.
namespace muster::internal {

/// Rows and columns of a table.
struct TableShape {
  std::int64_t rows = 0;
  std::int64_t width = 0;
};

/// Sizes that a receiver expects of a message: one with other sizes is refused.
struct ExpectedTensors {
  /// Replicas in the run.
  std::int64_t replicas = 0;
  /// Elements of dense gradients or values.
  std::int64_t flat_size = 0;
  /// Those with gradients by rows.
  std::vector<TableShape> tables{};
  /// Tensors with the types and shapes of the buffers.
  std::vector<at::Tensor> buffers{};
  /// How many tasks train: ranks in messages are below.
  std::size_t trainers = 0;
};
std::vector<TableShape> table_shapes(const Variables& variables);

/// The memory of a contiguous tensor on the CPU.
std::span<std::byte> bytes_of(const at::Tensor& tensor);
/// The next piece of a body as a tensor. Throws DataLoss when the body holds less.
at::Tensor take_tensor(MessageReader& reader, at::IntArrayRef sizes, at::ScalarType type);

/// Gradients or values of all variables, or of a server's part of them.
struct VariableTensors {
  static constexpr FieldSizes kSizes{.is_fixed = false, .has_body = true};

  /// To send: all of it, of which `ranges` are sent; received: those one after the other,
  /// all of which are sent where it is sent on.
  at::Tensor flat{};
  std::vector<FlatRange> ranges{};
  /// By table.
  std::vector<RowGradient> rows{};

  void write(MessageWriter& writer) const;
  void read(MessageReader& reader);
};

/// All of ExpectedTensors::buffers, or none.
struct BufferTensors {
  static constexpr FieldSizes kSizes{.least_header = 8, .has_body = true};

  std::vector<at::Tensor> tensors{};

  void write(MessageWriter& writer) const;
  void read(MessageReader& reader);
};

/// Numbers that are the whole body.
struct BodyDoubles {
  static constexpr FieldSizes kSizes{.has_body = true};

  std::vector<double> values{};

  void write(MessageWriter& writer) const { writer.add_rest(std::as_bytes(std::span(values))); }
  void read(MessageReader& reader);
};

/// Memory that is the whole body, of a tensor that the receiver knows.
struct BodyBytes {
  static constexpr FieldSizes kSizes{.has_body = true};

  std::span<const std::byte> bytes{};
  /// Received.
  std::shared_ptr<net::Buffer> memory{};

  void write(MessageWriter& writer) const { writer.add_rest(bytes); }
  void read(MessageReader& reader);
  /// The received bytes as a tensor. Throws DataLoss unless they are as many.
  at::Tensor as_tensor(at::IntArrayRef sizes, at::ScalarType type) const;
};

}  // namespace muster::internal
