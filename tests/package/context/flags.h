// The arguments of main().
extern int argc;
extern char** argv;
