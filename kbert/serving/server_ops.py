"""Which ops a stock tensorflow_model_server runs, and since which release."""

# What kbert's exports of all tasks contain, in float32 and bfloat16, frozen and quantised.
_EXPORTED = """
    Abs AddN AddV2 All Any ArgMax AsString Assert BatchMatMulV2 BatchMatMulV3 BiasAdd BroadcastTo Cast ConcatV2 Const
    Cumsum DenseBincount DivNoNan EnsureShape Equal Exp ExpandDims Fill FloorDiv FloorMod GatherNd GatherV2 Greater
    GreaterEqual Identity IdentityN If InvertPermutation IsFinite IsInf Less LessEqual Log LogicalAnd LogicalNot
    LogicalOr LowerBound MatMul Max Maximum Mean Min Minimum Mul Neg NoOp NotEqual OnesLike Pack Pad PadV2
    ParseExampleV2 PartitionedCall Placeholder Pow Prod QuantizeV2 RaggedGather RaggedRange RaggedTensorToTensor Range
    ReadVariableOp RealDiv ReduceJoin Reshape Round Rsqrt ScatterNd SegmentSum Select SelectV2 Shape Size Softmax Square
    SquaredDifference Squeeze StatefulPartitionedCall StatelessIf StaticRegexFullMatch StaticRegexReplace StopGradient
    StridedSlice StringJoin StringLength StringLower StringSplitV2 Sub Substr Sum Tanh TensorListConcatV2
    TensorListReserve TensorListSetItem TensorScatterUpdate Tile TopKV2 Transpose UnicodeDecode UnicodeEncode
    UnicodeTranscode Unique Unpack UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentSum UpperBound VarHandleOp Where
    While ZerosLike
    """
# What models of one's own may contain besides: ops that compute outputs from inputs and no more.
_COMPUTING = """
    Acos ArgMin Asin Atan Atan2 AvgPool BatchMatMul Bincount BitwiseAnd BitwiseOr BitwiseXor BroadcastArgs Bucketize
    Case Ceil ClipByValue Concat ConcatOffset Conv2D Cos Cosh Cumprod CumulativeLogsumexp DepthwiseConv2dNative DiagPart
    Einsum Elu Empty EmptyTensorList Erf Erfc Expm1 Floor FusedBatchNormV3 Gather IsNan LeakyRelu LeftShift LinSpace
    Log1p LogSoftmax MatrixBandPart MatrixDiag MatrixDiagV3 MatrixSetDiagV3 MaxPool OneHot ParseExample
    PlaceholderWithDefault RaggedCross Rank Reciprocal RegexFullMatch RegexReplace Relu Relu6 Reverse ReverseSequence
    ReverseV2 RightShift SegmentMax SegmentMean SegmentMin Selu ShapeN Sigmoid Sign Sin Sinh Slice Softplus Softsign
    Split SplitV Sqrt StatelessCase StatelessWhile StringFormat StringStrip StringToHashBucketFast StringUpper Tan
    TensorListConcat TensorListFromTensor TensorListGather TensorListGetItem TensorListLength TensorListPopBack
    TensorListPushBack TensorListResize TensorListStack TensorScatterAdd TensorScatterMax TensorScatterMin TopK
    TruncateDiv TruncateMod UnicodeDecodeWithOffsets UnicodeScript UniqueV2 UniqueWithCounts UnsortedSegmentJoin
    UnsortedSegmentProd Xlogy
    """
# Any other op may reach files, devices, processes or state of the server.
# All of these are in TensorFlow 2.12.
SERVED_OPS = frozenset((_EXPORTED + _COMPUTING).split())

# What the roles of `SavedModelFile.bodies` contain besides: a graph the variables' initialisers, which
# no server calls; the saver's functions the ops that write and read the variables' files.
ROLE_OPS = {
    "serve": frozenset(),
    "graph": frozenset(("AssignVariableOp", "VarIsInitializedOp")),
    "save": frozenset(("DisableCopyOnRead", "MergeV2Checkpoints", "SaveV2", "ShardedFilename")),
    "restore": frozenset(("AssignVariableOp", "RestoreV2")),
}

# Ops of tensorflow-text and the first server that links them. The servers 2.12 to 2.19 hold tf-text
# 2.12.1, 2.20 holds 2.20.0, and 2.11 held 2.8.2. (tensorflow_serving/model_servers/BUILD and
# workspace.bzl; tf-text's BUILD, ``ops_lib``.)
_IN_2_11 = """
    CaseFoldUTF8 NormalizeUTF8 NormalizeUTF8WithOffsetsMap FindSourceOffsets RegexSplitWithOffsets
    WordpieceTokenizeWithOffsets FastWordpieceTokenizeWithOffsets TFText>FastWordpieceDetokenize
    UnicodeScriptTokenizeWithOffsets WhitespaceTokenizeWithOffsets TFText>WhitespaceTokenizeWithOffsetsV2
    SplitMergeTokenizeWithOffsets TokenizerFromLogits SentenceFragments SentenceFragmentsV2 SentencepieceOp
    SentencepieceTokenizeOp SentencepieceTokenizeWithOffsetsOp SentencepieceDetokenizeOp SentencepieceVocabSizeOp
    SentencepieceIdToStringOp SentencepieceStringToIdOp TFText>FastSentencepieceTokenize
    TFText>FastSentencepieceDetokenize TFText>OffsetsToBoiseTags TFText>BoiseTagsToOffsets ConstrainedSequence
    MaxSpanningTree RougeL
    """
_IN_2_12 = """
    FastBertNormalize TFText>NgramsStringJoin TFText>ByteSplitWithOffsets TFText>ByteSplitByOffsets PhraseTokenize
    TFText>PhraseDetokenize
    """
_IN_2_20 = "TFText>RoundRobinTrim TFText>RoundRobinGenerateMasks TFText>Utf8Binarize"
TEXT_OPS = {
    name: release
    for release, names in (("2.11", _IN_2_11), ("2.12", _IN_2_12), ("2.20", _IN_2_20))
    for name in names.split()
}

# oneDNN's int8 product, and the first server that has it. Servers for other processors than x86 lack it.
INT8_OPS = {"_QuantizedMatMul": "2.17"}

_STATE = "is a lookup table, whose state is not a weight: exports lose it (keras-hub issue 2015); use a constant"
_PYTHON = "calls Python, which a server has not"
_COMPILED = "holds code compiled for one platform; export from the TensorFlow backend, without jit_compile"
_OTHER = "is not among the ops that models need (kbert/serving/server_ops.py): it may use files or state of the server"


def forbidden(op: str) -> str | None:
    """Why a model for servers must not use a core op, or None."""
    if op in SERVED_OPS:
        return None
    if "HashTable" in op or op.startswith(("LookupTable", "InitializeTable")):
        return _STATE
    if "PyFunc" in op:
        return _PYTHON
    return _COMPILED if "Xla" in op else _OTHER
