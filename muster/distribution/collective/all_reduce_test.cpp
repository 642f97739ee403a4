#include "muster/distribution/collective/all_reduce_internal.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/platform/net/listener.h"

// A namespace of its own, since tests of one module are compiled together.
namespace muster::internal::all_reduce_test {
namespace {

TEST(HalvesOf, CoverEveryElementOnce) {
  for (const FlatRange range : {FlatRange{0, 0}, {0, 1}, {0, 16}, {16, 49}, {32, 4096}}) {
    const Halves halves = halves_of(range);
    EXPECT_EQ(halves.lower.first, range.first);
    EXPECT_LE(halves.lower.first, halves.lower.last);
    EXPECT_EQ(halves.lower.last, halves.upper.first);
    EXPECT_LE(halves.upper.first, halves.upper.last);
    EXPECT_EQ(halves.upper.last, range.last);
  }
}

constexpr std::int64_t kFlat = 5'000;
constexpr TableShape kTable{.rows = 40, .width = 3};

/// How dense gradients go.
enum class Way {
  kWhole,
  kInSlices,
  /// In slices, of which each task keeps its own.
  kDivided,
};

/// `sharing` tasks take turns at each processor.
struct Layout {
  std::size_t tasks = 1;
  std::size_t sharing = 1;
  Way way = Way::kWhole;
  /// Whether tasks send different numbers of pieces ahead.
  bool has_own_ahead = false;
};

/// A few elements for each task, and most for the last.
ShardLayout shards_of(const GenerationPlan& plan) {
  const std::size_t tasks = plan.members.size();
  std::vector<std::int64_t> sizes;
  std::int64_t rest = kFlat;
  for (std::size_t rank = 0; rank < tasks; ++rank) {
    // Some have nothing.
    sizes.push_back(rank + 1 == tasks ? rest : static_cast<std::int64_t>(rank % 3) * 100);
    rest -= sizes.back();
  }
  return {sizes, halving_of(plan.members, 0).order};
}

GenerationPlan plan_of(const Layout& layout, std::int64_t replicas) {
  GenerationPlan plan{.number = 1, .trainers = layout.tasks};
  const auto at = [&](std::size_t task) {
    return static_cast<std::int64_t>(task) * replicas / static_cast<std::int64_t>(layout.tasks);
  };
  for (std::size_t t = 0; t < layout.tasks; ++t) {
    plan.members.push_back({.task = std::to_string(t),
                            .replicas = {at(t), at(t + 1)},
                            .shares_processor = t % layout.sharing != 0});
  }
  return plan;
}

/// The tasks of a plan, connected as it says, over loopback.
class Groups {
 public:
  explicit Groups(const GenerationPlan& plan) {
    const std::size_t tasks = plan.members.size();
    std::vector<Connections> connections(tasks);
    for (Connections& one : connections) one.resize(tasks);
    for (std::size_t rank = 0; rank < tasks; ++rank) {
      for (const std::size_t other : linked_ranks(plan, rank)) {
        if (other < rank) connect(connections[rank][other], connections[other][rank]);
      }
    }
    for (std::size_t rank = 0; rank < tasks; ++rank) {
      groups_.push_back(std::make_unique<Group>(plan, rank, std::move(connections[rank]),
                                                GroupOptions{.waiters_receive = true}));
    }
  }
  Group& of(std::size_t rank) { return *groups_[rank]; }

 private:
  using Connections = std::vector<std::unique_ptr<net::Connection>>;

  void connect(std::unique_ptr<net::Connection>& one, std::unique_ptr<net::Connection>& other) {
    accepted_ = {};
    one = net::Connection::connect(listener_.address(), {.task = "from:0", .run_id = "run"}, "data",
                                   Deadline::after(std::chrono::seconds(10)));
    other = accepted_.get_future().get();
  }

  std::promise<std::unique_ptr<net::Connection>> accepted_;
  net::Listener listener_{"127.0.0.1:0",
                          {.task = "to:0", .run_id = "run"},
                          [this](std::unique_ptr<net::Connection> connection) {
                            connection->detach();
                            accepted_.set_value(std::move(connection));
                          }};
  std::vector<std::unique_ptr<Group>> groups_;
};

// Sums of these depend on the order.
Gradients gradients_of(std::int64_t replica) {
  Gradients gradients{
      at::arange(kFlat, at::kFloat).add_(31 * replica + 1).sin_().mul_(replica + 1)};
  RowGradient& rows = gradients.rows.emplace_back();
  rows.rows = at::arange(replica % 5, kTable.rows, 2, at::kLong);
  rows.values = at::full({rows.rows.numel(), kTable.width}, 0.1F + static_cast<float>(replica));
  return gradients;
}

PartialSums sums_of(const ReplicaRange& mine, const std::vector<bool>& has_batch) {
  TreeSum<Gradients> sum(static_cast<std::int64_t>(has_batch.size()),
                         [](Gradients& into, Gradients&& from) { add_gradients(into, from); });
  PartialSums own;
  own.losses.resize(has_batch.size());
  for (std::int64_t r = mine.first; r < mine.last; ++r) {
    const bool has = has_batch[static_cast<std::size_t>(r)];
    sum.report(r, has ? std::optional(gradients_of(r)) : std::nullopt);
    if (!has) continue;
    own.losses[static_cast<std::size_t>(r)] = at::full({}, static_cast<double>(r) + 0.5);
    ++own.present;
  }
  own.sums = sum.take_parts();
  return own;
}

/// One task's part of a step; what it has of all then.
PartialSums sum_in(Group& group, const std::vector<bool>& has_batch, const Layout& layout) {
  const Way way = layout.way;
  const bool is_sliced = way != Way::kWhole;
  const torch::NoGradGuard no_grad;
  const auto replicas = static_cast<std::int64_t>(has_batch.size());
  const StepNotes notes{.positions = InputPositions(has_batch.size(), "here"),
                        .flat_size = kFlat,
                        .tables = {kTable}};
  const FlatRange all{0, kFlat};
  const PartialSums own = sums_of(group.replicas(), has_batch);
  StepGradients message = step_gradients(7, 0, own, notes, group.replicas(), std::span(&all, 1));
  const ShardLayout shards = shards_of(group.plan());
  const FlatRange mine = way == Way::kDivided ? shards.of(group.rank()) : all;
  const at::Tensor whole = is_sliced ? at::empty({size_of(mine)}, at::kFloat) : at::Tensor();
  TreeSum<at::Tensor>::Parts dense;
  for (TreePart& part : message.sums) {
    if (!is_sliced) break;
    auto& values = dense[{part.first, part.last}];
    if (!part.sum) continue;
    values = std::exchange(part.sum->flat, at::empty({0}, at::kFloat));
    part.sum->ranges.clear();
  }
  AllReduce reduce(
      group, {.replicas = replicas, .flat_size = kFlat, .tables = {kTable}},
      {.whole = whole,
       .piece = 700,
       .shards = way == Way::kDivided ? &shards : nullptr,
       .pieces_ahead = layout.has_own_ahead
                           ? std::optional(1 + static_cast<std::int64_t>(group.rank()) % 3)
                           : std::nullopt},
      "gradients");
  auto sum = reduce.sum(std::move(message), std::move(dense));
  if (!sum) throw Internal("the run has ended");
  PartialSums total = received_step(std::move(*sum), replicas).parts;
  if (is_sliced && total.present > 0) {
    total.sums.begin()->second->flat = whole;
    total.sums.begin()->second->first = mine.first;
  }
  return total;
}

void expect_sums_of_one_task(const Layout& layout, const std::vector<bool>& has_batch) {
  SCOPED_TRACE(::testing::Message() << layout.tasks << " tasks, " << layout.sharing
                                    << " a processor, " << has_batch.size() << " replicas"
                                    << " by way " << static_cast<int>(layout.way));
  const auto replicas = static_cast<std::int64_t>(has_batch.size());
  const PartialSums alone = sums_of({0, replicas}, has_batch);
  const auto& expected = alone.sums.at({0, replicas});
  Groups groups(plan_of(layout, replicas));
  std::vector<std::future<PartialSums>> tasks;
  tasks.reserve(layout.tasks);
  for (std::size_t rank = 0; rank < layout.tasks; ++rank) {
    tasks.push_back(std::async(std::launch::async,
                               [&, rank] { return sum_in(groups.of(rank), has_batch, layout); }));
  }
  std::int64_t elements = 0;
  for (auto& task : tasks) {
    const PartialSums total = task.get();
    EXPECT_EQ(total.present, alone.present);
    ASSERT_EQ(total.sums.size(), 1U);
    const auto& sum = total.sums.at({0, replicas});
    ASSERT_EQ(sum.has_value(), expected.has_value());
    for (std::size_t r = 0; r < has_batch.size(); ++r) {
      EXPECT_EQ(total.losses[r].defined(), has_batch[r]);
      if (has_batch[r]) EXPECT_TRUE(total.losses[r].equal(alone.losses[r]));
    }
    if (!sum) continue;
    EXPECT_TRUE(sum->flat.equal(expected->flat.narrow(0, sum->first, sum->flat.numel())))
        << "other bits";
    elements += sum->flat.numel();
    EXPECT_TRUE(sum->rows[0].rows.equal(expected->rows[0].rows));
    EXPECT_TRUE(sum->rows[0].values.equal(expected->rows[0].values)) << "other bits in rows";
  }
  if (expected && layout.way == Way::kDivided) EXPECT_EQ(elements, kFlat);
}

class AllReduceOverTasks : public ::testing::TestWithParam<Way> {};

TEST_P(AllReduceOverTasks, GivesTheBitsOfOneTask) {
  for (const std::size_t tasks : {2U, 3U, 6U, 8U}) {
    expect_sums_of_one_task({tasks, 1, GetParam()}, std::vector<bool>(8, true));
    expect_sums_of_one_task({tasks, 1, GetParam()}, std::vector<bool>(11, true));
  }
}

TEST_P(AllReduceOverTasks, GivesTheSameBitsWhereTasksSendAheadAsTheyLike) {
  for (const std::size_t tasks : {2U, 3U, 4U, 8U}) {
    expect_sums_of_one_task({tasks, 1, GetParam(), /*has_own_ahead=*/true},
                            std::vector<bool>(8, true));
  }
}

TEST_P(AllReduceOverTasks, GivesTheSameBitsWhereTasksShareProcessors) {
  for (const std::size_t tasks : {2U, 5U, 8U, 12U}) {
    for (const std::size_t sharing : {2U, 3U, 4U, 12U}) {
      expect_sums_of_one_task({tasks, sharing, GetParam()}, std::vector<bool>(13, true));
    }
  }
}

TEST_P(AllReduceOverTasks, SkipsReplicasWithoutABatch) {
  for (const std::size_t sharing : {1U, 2U, 4U}) {
    expect_sums_of_one_task({4, sharing, GetParam()}, {false, true, true, false, false, true});
    expect_sums_of_one_task({4, sharing, GetParam()}, {false, false, true});
    expect_sums_of_one_task({4, sharing, GetParam()}, std::vector<bool>(4, false));
  }
}

std::string name_of_way(const ::testing::TestParamInfo<Way>& way) {
  const std::vector<std::string> names{"Whole", "InSlices", "Divided"};
  return names[static_cast<std::size_t>(way.param)];
}

INSTANTIATE_TEST_SUITE_P(Each, AllReduceOverTasks,
                         ::testing::Values(Way::kWhole, Way::kInSlices, Way::kDivided),
                         name_of_way);

}  // namespace
}  // namespace muster::internal::all_reduce_test
