extern torch::Tensor x, y;
extern std::vector<muster::NamedTensor> state;
