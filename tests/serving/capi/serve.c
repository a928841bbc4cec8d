/* Loads a SavedModel through TensorFlow's C API, no Python anywhere, and answers requests on strings.
 *
 *     serve MODEL_DIR [OP_LIBRARY.so ...] < requests > answers
 *
 * Only the op libraries named are loaded: a model that needs another op fails to load, as in a server that lacks it.
 *
 * A request is lines of words: `in NODE:INDEX RANK DIM... VALUE...` for each input (a value is the bytes of a string in
 * hexadecimal, "-" for none), `out NODE:INDEX` for each output, then `run`. An answer is a line
 * `tensor DTYPE RANK DIM... VALUE...` for each output, then `done`; or `error CODE MESSAGE`. The model stays loaded, so
 * that any number of requests may follow each other, good or bad.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tensorflow/c/c_api.h>
#include <tensorflow/c/tf_tstring.h>

enum { MAX_TENSORS = 64, MAX_RANK = 8 };

static void stop(TF_Status *status, const char *what) {
  if (TF_GetCode(status) == TF_OK) return;
  fprintf(stderr, "%s: [%d] %s\n", what, TF_GetCode(status), TF_Message(status));
  exit(1);
}

static char *word(char **rest) { return strsep(rest, " \n"); }

static TF_Output find(TF_Graph *graph, char *name) {
  char *colon = strrchr(name, ':');
  TF_Output found = {NULL, 0};
  if (colon) {
    found.index = atoi(colon + 1);
    *colon = 0;
  }
  found.oper = TF_GraphOperationByName(graph, name);
  if (!found.oper) {
    fprintf(stderr, "there is no node %s\n", name);
    exit(1);
  }
  return found;
}

static int nibble(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

static TF_Tensor *read_strings(char **rest) {
  int64_t dims[MAX_RANK], count = 1;
  int rank = atoi(word(rest));
  for (int i = 0; i < rank; i++) count *= dims[i] = atoll(word(rest));
  TF_Tensor *tensor = TF_AllocateTensor(TF_STRING, dims, rank, sizeof(TF_TString) * count);
  TF_TString *strings = TF_TensorData(tensor);
  for (int64_t i = 0; i < count; i++) {
    char *hex = word(rest);
    size_t size = *hex == '-' ? 0 : strlen(hex) / 2;
    char *bytes = malloc(size + 1);
    for (size_t k = 0; k < size; k++) bytes[k] = (char)(nibble(hex[2 * k]) << 4 | nibble(hex[2 * k + 1]));
    TF_StringInit(&strings[i]);
    TF_StringCopy(&strings[i], bytes, size);
    free(bytes);
  }
  return tensor;
}

static void print_string(const TF_TString *string) {
  size_t size = TF_StringGetSize(string);
  const char *bytes = TF_StringGetDataPointer(string);
  if (!size) printf(" -");
  else putchar(' ');
  for (size_t k = 0; k < size; k++) printf("%02x", (unsigned char)bytes[k]);
}

static void print_tensor(TF_Tensor *tensor) {
  TF_DataType dtype = TF_TensorType(tensor);
  int rank = TF_NumDims(tensor);
  int64_t count = TF_TensorElementCount(tensor);
  const void *data = TF_TensorData(tensor);
  printf("tensor %d %d", dtype, rank);
  for (int i = 0; i < rank; i++) printf(" %lld", (long long)TF_Dim(tensor, i));
  for (int64_t i = 0; i < count; i++) {
    if (dtype == TF_FLOAT) printf(" %.9g", ((const float *)data)[i]);
    else if (dtype == TF_INT32) printf(" %d", ((const int *)data)[i]);
    else if (dtype == TF_BOOL) printf(" %d", ((const unsigned char *)data)[i]);
    else if (dtype == TF_STRING) print_string((const TF_TString *)data + i);
    else exit(2);
  }
  putchar('\n');
}

int main(int argc, char **argv) {
  TF_Status *status = TF_NewStatus();
  for (int i = 2; i < argc; i++) {
    TF_LoadLibrary(argv[i], status);
    stop(status, argv[i]);
  }
  const char *tags[] = {"serve"};
  TF_Graph *graph = TF_NewGraph();
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_Session *session = TF_LoadSessionFromSavedModel(options, NULL, argv[1], tags, 1, graph, NULL, status);
  stop(status, "load");
  TF_Output inputs[MAX_TENSORS], outputs[MAX_TENSORS];
  TF_Tensor *given[MAX_TENSORS], *got[MAX_TENSORS];
  int num_inputs = 0, num_outputs = 0;
  char *line = NULL;
  size_t capacity = 0;
  while (getline(&line, &capacity, stdin) > 0) {
    char *rest = line, *command = word(&rest);
    if (!strcmp(command, "in")) {
      inputs[num_inputs] = find(graph, word(&rest));
      given[num_inputs++] = read_strings(&rest);
    } else if (!strcmp(command, "out")) {
      outputs[num_outputs++] = find(graph, word(&rest));
    } else if (!strcmp(command, "run")) {
      TF_SessionRun(session, NULL, inputs, given, num_inputs, outputs, got, num_outputs, NULL, 0, NULL, status);
      if (TF_GetCode(status) == TF_OK) {
        for (int i = 0; i < num_outputs; i++) {
          print_tensor(got[i]);
          TF_DeleteTensor(got[i]);
        }
        puts("done");
      } else {
        printf("error %d %.200s\n", TF_GetCode(status), TF_Message(status));
      }
      fflush(stdout);
      for (int i = 0; i < num_inputs; i++) TF_DeleteTensor(given[i]);
      num_inputs = num_outputs = 0;
    }
  }
  TF_CloseSession(session, status);
  stop(status, "close");
  printf("bye %s\n", TF_Version());
  return 0;
}
