struct DigitNet : torch::nn::Module {};
