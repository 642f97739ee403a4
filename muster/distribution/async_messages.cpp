#include <utility>

#include "muster/distribution/async_messages_internal.h"
#include "muster/distribution/body_codec_internal.h"
#include "muster/distribution/head_codec_internal.h"

namespace muster::internal {
namespace {

/// What stands before the values in the header of a reply.
constexpr std::size_t kReplyNumbers = 5;

}  // namespace

RunTerms asynchronous_terms(RunTerms terms, std::int64_t max_staleness) {
  terms.arithmetic += fmt::format(", asynchronous updates, max_staleness={}", max_staleness);
  return terms;
}

EncodedMessage encode_push(const AsyncPush& push) {
  HeaderWriter header;
  EncodedMessage message;
  header.put(push.replicas.first);
  header.put(push.replicas.last);
  header.put(push.present);
  header.put(push.examples);
  header.put(push.loss);
  header.put_number(push.positions.size());
  for (const auto& position : push.positions) put_position(header, position);
  header.put_number(push.flat.defined() ? 1 : 0);
  if (push.flat.defined()) {
    add_ranges(message.body, push.flat, push.ranges);
    for (const RowGradient& rows : push.rows) put_rows(header, message.body, rows);
  }
  header.put_number(push.buffers.size());
  for (const at::Tensor& buffer : push.buffers) add_piece(message.body, bytes_of(buffer));
  message.header = header.bytes();
  return message;
}

AsyncPush decode_push(std::string_view bytes, net::Buffer memory, std::int64_t replicas,
                      std::int64_t flat_size, std::size_t tables,
                      const std::vector<at::Tensor>& buffers) {
  HeaderReader header(bytes);
  BodyReader body(std::move(memory));
  AsyncPush push;
  push.replicas = {header.number(), header.number()};
  if (push.replicas.first < 0 || push.replicas.first > push.replicas.last ||
      push.replicas.last > replicas) {
    throw DataLoss("a push is about the replicas [{}, {}) of {}", push.replicas.first,
                   push.replicas.last, replicas);
  }
  push.present = header.number();
  push.examples = header.number();
  push.loss = header.real();
  push.positions.resize(header.count(8));
  for (auto& position : push.positions) position = read_position(header);
  if (!push.positions.empty() &&
      static_cast<std::int64_t>(push.positions.size()) != push.replicas.size()) {
    throw DataLoss("a push has {} positions for {} replicas", push.positions.size(),
                   push.replicas.size());
  }
  if (header.number() != 0) {
    push.flat = body.tensor({flat_size}, at::kFloat);
    for (std::size_t table = 0; table < tables; ++table)
      push.rows.push_back(read_rows(header, body));
  }
  const auto count = static_cast<std::size_t>(header.number());
  if (count != 0 && count != buffers.size()) {
    throw DataLoss("a push has {} buffers, and the model has {}", count, buffers.size());
  }
  for (std::size_t i = 0; i < count; ++i) {
    push.buffers.push_back(body.tensor(buffers[i].sizes(), buffers[i].scalar_type()));
  }
  if (!header.at_end()) throw DataLoss("a push is longer than it can be");
  return push;
}

EncodedMessage encode_reply(const AsyncReply& reply) {
  HeaderWriter header;
  header.put(reply.staleness.updates);
  header.put(reply.staleness.sum);
  header.put(reply.staleness.max);
  header.put(reply.too_old);
  header.put_number(reply.left_out ? 1 : 0);
  EncodedMessage message = encode_values(reply.values);
  message.header = header.bytes() + message.header;
  return message;
}

AsyncReply decode_reply(std::string_view bytes, net::Buffer memory, std::int64_t flat_size,
                        std::size_t tables, const std::vector<at::Tensor>& buffers) {
  HeaderReader header(bytes);
  AsyncReply reply;
  reply.staleness = {header.number(), header.number(), header.number()};
  reply.too_old = header.number();
  reply.left_out = header.number() != 0;
  reply.values = decode_values(bytes.substr(kReplyNumbers * sizeof(std::int64_t)),
                               std::move(memory), flat_size, tables, buffers);
  return reply;
}

}  // namespace muster::internal
