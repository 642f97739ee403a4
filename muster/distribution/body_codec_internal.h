#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/distribution/head_codec_internal.h"
#include "muster/model/row_gradient.h"
#include "muster/net/buffer.h"
#include "muster/optim/updater.h"

// Tensors as bodies of messages, and what headers say of them.
namespace muster::internal {

using Body = std::vector<std::span<const std::byte>>;

/// What is sent. The body is memory of whoever made it, which must live until then.
struct EncodedMessage {
  std::string header{};
  Body body{};
};

/// The memory of a contiguous tensor on the CPU.
std::span<std::byte> bytes_of(const at::Tensor& tensor);

/// Every piece begins at a multiple of 64 bytes, as the body does.
void add_piece(Body& body, std::span<const std::byte> piece);
/// Several that make one, one behind the other.
void add_piece(Body& body, std::span<const std::span<const std::byte>> pieces);

/// Ranges of a flat tensor of floats as one piece.
void add_ranges(Body& body, const at::Tensor& flat, std::span<const FlatRange> ranges);

/// Cuts tensors out of a body, in the order in which they were added. They keep the body.
class BodyReader {
 public:
  explicit BodyReader(net::Buffer body) : body_(std::make_shared<net::Buffer>(std::move(body))) {}

  /// Throws DataLoss when the body holds less.
  at::Tensor tensor(at::IntArrayRef sizes, at::ScalarType type);

 private:
  std::shared_ptr<net::Buffer> body_;
  std::size_t next_ = 0;
};

void put_rows(HeaderWriter& header, Body& body, const RowGradient& rows);
RowGradient read_rows(HeaderReader& header, BodyReader& body);
/// Of a replica; undefined for one without a batch.
void put_loss(HeaderWriter& header, const at::Tensor& loss);
at::Tensor read_loss(HeaderReader& header);
void put_position(HeaderWriter& header, const std::optional<std::string>& position);
std::optional<std::string> read_position(HeaderReader& header);

}  // namespace muster::internal
