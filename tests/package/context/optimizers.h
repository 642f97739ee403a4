extern torch::Tensor x, y;
extern std::vector<muster::NamedTensor> state;
struct DigitNet : muster::Model {
  torch::Tensor forward(const muster::Features& x) override;
};
extern muster::RunConfig config;
extern muster::InputFn train_input;
