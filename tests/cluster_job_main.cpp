#include "muster/base/program.h"
#include "muster/testing/hosts/name_space.h"
#include "tests/cluster_job.h"

int main(int argc, char** argv) {
  return muster::run_main(argc, argv, [](int count, char** words) {
    muster::testing::enter_name_space();
    return muster::testing::run_cluster_job(count, words);
  });
}
