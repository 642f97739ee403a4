#include "muster/train/engine/checkpoint_writer.h"

#include <utility>

namespace muster {

void CheckpointWriter::open(CheckpointStore store) {
  checkpointer_ = std::make_unique<AsyncCheckpointer>(std::move(store));
}

void CheckpointWriter::begin(std::int64_t step, CheckpointContent content,
                             std::function<void()> before_writing) {
  being_copied_ = std::move(content);
  checkpointer_->save(step, being_copied_->tensors, being_copied_->state_json,
                      std::move(before_writing), being_copied_->parts);
}

void CheckpointWriter::wait_until_copied() {
  if (!being_copied_) return;
  checkpointer_->wait_until_copied();
  being_copied_.reset();
}

void CheckpointWriter::flush() {
  if (is_open()) checkpointer_->flush();
}

std::optional<Description> CheckpointWriter::failure() {
  flush();
  return is_open() ? checkpointer_->status().last_failure : std::nullopt;
}

}  // namespace muster
