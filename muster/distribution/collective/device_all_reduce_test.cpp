#include "muster/distribution/collective/device_all_reduce_internal.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

namespace muster::internal {
namespace {

constexpr std::int64_t kFlat = 1'000;

/// Tensors on their way between tasks that are threads.
class Mail {
 public:
  void put(std::size_t from, std::size_t to, const at::Tensor& values) {
    const std::lock_guard lock(mutex_);
    boxes_[{from, to}].push_back(values.clone());
    changed_.notify_all();
  }
  at::Tensor take(std::size_t from, std::size_t to) {
    std::unique_lock lock(mutex_);
    auto& box = boxes_[{from, to}];
    changed_.wait(lock, [&] { return !box.empty(); });
    at::Tensor values = box.front();
    box.pop_front();
    return values;
  }
  bool is_empty() {
    const std::lock_guard lock(mutex_);
    return std::ranges::all_of(boxes_, [](const auto& box) { return box.second.empty(); });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<std::size_t, std::size_t>, std::deque<at::Tensor>> boxes_;
};

class MailLink final : public DeviceLink {
 public:
  MailLink(Mail& mail, std::size_t rank) : mail_(mail), rank_(rank) {}

  void begin() override {}
  void send(const at::Tensor& values, std::size_t to) override { mail_.put(rank_, to, values); }
  void receive(const at::Tensor& values, std::size_t from) override {
    due_.emplace_back(values, from);
  }
  void end() override {
    for (const auto& [values, from] : std::exchange(due_, {})) {
      const at::Tensor came = mail_.take(from, rank_);
      // The tensors that were sent are those that were due, in this order.
      ASSERT_EQ(came.sizes(), values.sizes());
      ASSERT_EQ(came.scalar_type(), values.scalar_type());
      values.copy_(came);
    }
  }
  void abort() override {}

 private:
  Mail& mail_;
  const std::size_t rank_;
  std::vector<std::pair<at::Tensor, std::size_t>> due_;
};

// Sums of these depend on the order.
at::Tensor gradients_of(std::int64_t replica) {
  return at::arange(kFlat, at::kFloat).add_(31 * replica + 1).sin_().mul_(replica + 1);
}

PartialSums sums_of(const ReplicaRange& mine, const std::vector<bool>& has_batch) {
  const torch::NoGradGuard no_grad;
  const auto replicas = static_cast<std::int64_t>(has_batch.size());
  TreeSum<Gradients> sum(replicas,
                         [](Gradients& into, Gradients&& from) { add_gradients(into, from); });
  PartialSums own;
  own.losses.resize(has_batch.size());
  for (std::int64_t r = mine.first; r < mine.last; ++r) {
    if (!has_batch[static_cast<std::size_t>(r)]) {
      sum.report(r, std::nullopt);
      continue;
    }
    sum.report(r, Gradients{.flat = gradients_of(r)});
    own.losses[static_cast<std::size_t>(r)] = at::full({}, static_cast<double>(r) + 0.5);
    ++own.present;
  }
  own.sums = sum.take_parts();
  return own;
}

GenerationPlan plan_of(std::size_t tasks, std::int64_t replicas, std::size_t sharing) {
  GenerationPlan plan{.number = 1, .trainers = tasks};
  for (std::size_t t = 0; t < tasks; ++t) {
    const auto at = [&](std::size_t task) {
      return static_cast<std::int64_t>(task) * replicas / static_cast<std::int64_t>(tasks);
    };
    plan.members.push_back({.task = std::to_string(t),
                            .replicas = {at(t), at(t + 1)},
                            .shares_processor = t % sharing != 0});
  }
  return plan;
}

struct Summed {
  PartialSums sums;
  std::vector<at::Tensor> buffers;
};

// Two steps of this many tasks, as threads.
std::vector<Summed> sum_over(std::size_t tasks, const std::vector<bool>& has_batch,
                             const std::vector<FlatRange>& pieces, std::size_t sharing) {
  const auto replicas = static_cast<std::int64_t>(has_batch.size());
  const GenerationPlan plan = plan_of(tasks, replicas, sharing);
  Mail mail;
  std::vector<Summed> all(tasks);
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < tasks; ++rank) {
    threads.emplace_back([&, rank] {
      const torch::NoGradGuard no_grad;
      const ReplicaRange mine = plan.members[rank].replicas;
      // Those of replica 0 are told by their values.
      const float value = mine.contains(0) ? 5.0F : -1.0F;
      Summed& one = all[rank];
      one.buffers = {at::full({3}, value), at::full({}, static_cast<int>(value), at::kLong)};
      MailLink link(mail, rank);
      DeviceAllReduce reduce(plan, rank, replicas, at::zeros({kFlat}), pieces, &link);
      for (int step = 0; step < 2; ++step) {
        one.sums = sums_of(mine, has_batch);
        reduce.begin_step(has_batch);
        reduce.add_up(one.sums, one.buffers);
      }
    });
  }
  threads.clear();
  EXPECT_TRUE(mail.is_empty()) << "a message was sent that no task wanted";
  return all;
}

void expect_sums_of_one_task(std::size_t tasks, const std::vector<bool>& has_batch,
                             const std::vector<FlatRange>& pieces = {{0, kFlat}},
                             std::size_t sharing = 1) {
  SCOPED_TRACE(::testing::Message() << tasks << " tasks, " << has_batch.size() << " replicas, "
                                    << sharing << " tasks a processor");
  const auto replicas = static_cast<std::int64_t>(has_batch.size());
  const PartialSums alone = sums_of({0, replicas}, has_batch);
  for (const Summed& one : sum_over(tasks, has_batch, pieces, sharing)) {
    EXPECT_EQ(one.sums.present, alone.present);
    ASSERT_EQ(one.sums.sums.size(), 1U);
    const auto& sum = one.sums.sums.at({0, replicas});
    ASSERT_TRUE(sum);
    EXPECT_TRUE(sum->flat.equal(alone.sums.at({0, replicas})->flat)) << "other bits";
    for (std::size_t r = 0; r < has_batch.size(); ++r) {
      ASSERT_EQ(one.sums.losses[r].defined(), has_batch[r]);
      if (has_batch[r]) {
        EXPECT_EQ(one.sums.losses[r].item<double>(), static_cast<double>(r) + 0.5);
      }
    }
    EXPECT_TRUE(one.buffers[0].equal(at::full({3}, 5.0F)));
    EXPECT_EQ(one.buffers[1].item<std::int64_t>(), 5);
  }
}

TEST(DeviceAllReduce, GivesTheBitsOfOneTask) {
  for (const std::size_t tasks : {1U, 2U, 3U, 4U, 5U, 6U, 8U}) {
    for (const std::size_t replicas : {8U, 11U}) {
      expect_sums_of_one_task(tasks, std::vector<bool>(replicas, true));
    }
  }
}

TEST(DeviceAllReduce, GivesTheSameBitsPieceByPiece) {
  const std::vector<FlatRange> pieces{{640, kFlat}, {639, 640}, {16, 639}, {0, 16}};
  for (const std::size_t tasks : {1U, 2U, 3U, 4U, 6U, 8U}) {
    expect_sums_of_one_task(tasks, std::vector<bool>(8, true), pieces);
    expect_sums_of_one_task(tasks, {true, false, false, true, true, true, true, false}, pieces);
  }
  expect_sums_of_one_task(3, {true, true}, pieces);
}

TEST(DeviceAllReduce, GivesTheSameBitsWhereTasksShareProcessors) {
  const std::vector<FlatRange> pieces{{640, kFlat}, {0, 640}};
  for (const std::size_t tasks : {2U, 3U, 6U, 8U}) {
    for (const std::size_t sharing : {2U, 3U, 8U}) {
      expect_sums_of_one_task(tasks, std::vector<bool>(11, true), pieces, sharing);
      expect_sums_of_one_task(tasks, {false, false, true, true, true, false}, pieces, sharing);
    }
  }
}

TEST(DeviceAllReduce, SkipsReplicasWithoutABatch) {
  expect_sums_of_one_task(2, {true, false, true, true});
  expect_sums_of_one_task(3, {false, true, true, false, false, true});
  expect_sums_of_one_task(4, {true, true, false, false, true, true, true, true});
  expect_sums_of_one_task(5, {false, false, false, false, false, false, true});
}

TEST(DeviceAllReduce, TakesTasksWithoutReplicas) {
  expect_sums_of_one_task(3, {true, true});
  expect_sums_of_one_task(6, {true, false, true});
}

}  // namespace
}  // namespace muster::internal
