#include <ATen/ops/empty.h>
#include <torch/types.h>

#include <algorithm>

#include "muster/base/log.h"
#include "muster/distribution/body_codec_internal.h"
#include "muster/distribution/head_codec_internal.h"
#include "muster/distribution/image_internal.h"

namespace muster::internal {
namespace {

// Of an image's tensors: larger ones are sent in several messages.
constexpr std::size_t kTensorPiece = std::size_t{16} << 20;

}  // namespace

Deadline synchronize_deadline(const RunConfig& config, bool has_state) {
  if (has_state && !config.is_chief())
    return Deadline::after(config.join_timeout + std::chrono::seconds(5));
  return Deadline::after(config.session_creation_timeout_secs);
}

bool synchronize(Membership& membership, const Deadline& deadline,
                 const std::function<Progress()>& progress,
                 const std::function<bool(Group& group, const Source& source)>& take) {
  for (;;) {
    const auto source = membership.begin_epoch(progress(), deadline);
    if (!source) return false;
    try {
      return take(membership.group(), *source);
    } catch (const PeersChanged& error) {
      log::warning("epoch {} ends before it began: {}", membership.group().plan().number,
                   error.what());
    }
  }
}

void send_image(Group& group, const RunImage& own, std::size_t to) {
  log::info("sending step {} to {}", own.step, group.plan().members[to].task);
  HeadWriter head;
  head.put(own.step);
  head.put(own.left_out);
  head.put(own.inputs_from);
  head.put(own.state_json);
  head.put_number(own.tensors.size());
  for (const NamedTensor& named : own.tensors) {
    head.put(named.name);
    head.put_number(static_cast<int>(named.tensor.scalar_type()));
    head.put_number(named.tensor.nbytes());
  }
  group.send(to, MessageType::kImage, head.bytes(), {});
  for (const NamedTensor& named : own.tensors) {
    const at::Tensor whole = named.tensor.contiguous();
    std::span<const std::byte> rest = bytes_of(whole);
    while (!rest.empty()) {
      const std::span<const std::byte> piece = rest.first(std::min(rest.size(), kTensorPiece));
      group.send(to, MessageType::kTensor, {}, std::span(&piece, 1));
      rest = rest.subspan(piece.size());
    }
  }
}

// Values are taken over when all are there: a sender that is lost on the way leaves no mixture.
RunImage receive_image(Group& group, std::size_t from, const RunImage& own) {
  const std::string& task = group.plan().members[from].task;
  const auto next = [&](MessageType type) {
    auto frame = group.take(from, type, "the state of the run");
    if (!frame) throw PeersChanged("the run has ended");
    return std::move(*frame);
  };
  const net::Frame frame = next(MessageType::kImage);
  HeadReader head(frame.head);
  RunImage image;
  image.step = head.number();
  image.left_out = head.number();
  image.inputs_from = head.number();
  image.state_json = head.text();
  const std::size_t count = head.count(24);
  if (count != own.tensors.size()) {
    throw FailedPrecondition("{} trains another model: it has {} variables and slots, {} has {}",
                             task, count, group.plan().members[group.rank()].task,
                             own.tensors.size());
  }
  for (const NamedTensor& mine : own.tensors) {
    const std::string_view name = head.text();
    const std::int64_t type = head.number();
    const std::int64_t bytes = head.number();
    if (name != mine.name || type != static_cast<std::int64_t>(mine.tensor.scalar_type()) ||
        bytes != static_cast<std::int64_t>(mine.tensor.nbytes())) {
      throw FailedPrecondition(
          "{} trains another model: it has {} with {} bytes where {} has {} with {}", task, name,
          bytes, group.plan().members[group.rank()].task, mine.name, mine.tensor.nbytes());
    }
  }
  for (const NamedTensor& mine : own.tensors) {
    at::Tensor whole = at::empty(mine.tensor.sizes(), mine.tensor.options());
    std::span<std::byte> rest = bytes_of(whole);
    while (!rest.empty()) {
      const net::Frame piece = next(MessageType::kTensor);
      if (piece.body.empty() || piece.body.size() > rest.size()) {
        throw DataLoss("{} sent {} bytes of {}, which has {} left", task, piece.body.size(),
                       mine.name, rest.size());
      }
      std::ranges::copy(piece.body.bytes(), rest.begin());
      rest = rest.subspan(piece.body.size());
    }
    image.tensors.push_back({mine.name, std::move(whole)});
  }
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < image.tensors.size(); ++i) {
    own.tensors[i].tensor.copy_(image.tensors[i].tensor);
  }
  log::info("going on from step {} of {}", image.step, task);
  return image;
}

}  // namespace muster::internal
