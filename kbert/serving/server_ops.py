"""Which ops a stock tensorflow_model_server runs, and since which release."""

# Core ops of TensorFlow 2.21 that TensorFlow 2.12 does not have: what TF_GetAllOpList returns in one, not the other.
CORE_OPS_SINCE_2_13 = frozenset(
    """
    CheckPinned CollectiveAllToAllV2 ComputeDedupDataSize ComputeDedupDataSizeV2 ComputeDedupDataTupleMaskV2 Conv
    ConvertToCooTensor ConvertToListOfSparseCoreCooTensors ConvertToSparseCoreCsrWrappedCooTensor DTensorAllToAll
    CalibrationStatisticsSaver DatasetFingerprint DebugIdentityV3 DecodeJxl DecodeWebP DumpTensor
    DynamicEnqueueTPUEmbeddingRaggedTensorBatch FFTND FinalizeTPUEmbeddingV2 GetMinibatchSplitsWithPhysicalReplica
    GetMinibatchesInCsrWithPhysicalReplica GetStatsFromListOfSparseCoreCooTensors GetTpuTaskId GlobalIterId
    GlobalShuffleDataset IFFTND IRFFTND IndexFlatMapDataset IteratorGetModelProto ListSnapshotChunksDataset RFFTND
    RaggedFillEmptyRows RaggedFillEmptyRowsGrad RelayoutLike SegmentMaxV2 SegmentMinV2 SnapshotChunkDataset
    SortListOfSparseCoreCooTensors SparseSegmentMeanGradV2 SparseSegmentSqrtNGradV2 SparseSegmentSumGradV2
    StochasticCastToInt StoreMinibatchStatisticsInFdo TFRecordDatasetV2 TPUAnnotateTensorsWithDynamicShape
    TPUCopyWithDynamicShape TPUDummyInput UpdateTaskIdAndGlobalCoreArray WeightedFlatMapDataset XlaLaunchV2
    XlaRecvTPUEmbeddingActivationsV2 XlaRecvTPUEmbeddingDeduplicationDataV2 XlaSendTPUEmbeddingGradientsV2
    """.split()
)

# Ops of tensorflow-text and the first server that links them. The servers 2.12 to 2.19 hold tf-text 2.12.1, 2.20 holds
# 2.20.0, and 2.11 held 2.8.2. (tensorflow_serving/model_servers/BUILD and workspace.bzl; tf-text's BUILD, ``ops_lib``.)
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

# What a server links but a model for strings must not use: state besides the weights (tables need files and an
# initialiser that Keras' export loses), Python, and code compiled for one machine.
_STATE = "is a lookup table, whose state is not a weight: exports lose it (keras-hub issue 2015); use a constant"
_PYTHON = "calls Python, which a server has not"
_COMPILED = "holds code compiled for one platform; export from the TensorFlow backend, without jit_compile"
_FILES = "reads or writes files of the server"
FORBIDDEN_CORE_OPS = {
    **dict.fromkeys(("PyFunc", "PyFuncStateless", "EagerPyFunc"), _PYTHON),
    **dict.fromkeys(("XlaCallModule", "XlaLaunch", "XlaLaunchV2", "_XlaCompile", "_XlaRun"), _COMPILED),
    **dict.fromkeys(("ReadFile", "WriteFile", "WholeFileReaderV2", "MatchingFiles", "TextLineReaderV2"), _FILES),
}


def forbidden(op):
    """Why a model for servers must not use a core op, or None."""
    if "HashTable" in op or op.startswith(("LookupTable", "InitializeTable", "AnonymousMutableHash")):
        return _STATE
    return FORBIDDEN_CORE_OPS.get(op)
