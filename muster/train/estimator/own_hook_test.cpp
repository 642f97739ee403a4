#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "muster/data/summary/event_writer.h"
#include "muster/train/engine/hook.h"
#include "muster/train/hooks/fake_session_internal.h"

namespace muster {
namespace {

// The hook of docs/guides/hooks.md, word by word.
class PerplexityHook : public muster::Hook {
 public:
  void after_run(muster::Session& session) override {
    if (session.global_step() % 100 != 0) return;
    const double perplexity = std::exp(session.loss());
    session.events().add_scalar("perplexity", perplexity, session.global_step());
    if (perplexity < 20) session.request_stop("perplexity is below 20");
  }
};

TEST(OwnHook, TheOneOfTheGuideWritesAndStops) {
  testing::FakeSession session;
  PerplexityHook hook;
  session.loss_value = 4;
  session.run(hook, 199);
  EXPECT_FALSE(session.stop_requested());
  session.loss_value = 0;
  session.run(hook);
  EXPECT_TRUE(session.stop_requested());
  EXPECT_EQ(session.written_events().size(), 2U);
}

}  // namespace
}  // namespace muster
