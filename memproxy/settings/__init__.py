"""Settings: the schema of the configuration file. `config_file` loads it; `unbuilt` lists what may not be set yet."""

from memproxy.settings.access import (
    OPENAI_BASE_URL,
    AuthSettings,
    ClaimNames,
    JwtSettings,
    Permission,
    ProxyKeySettings,
    ServerSettings,
    UpstreamRoute,
    UpstreamSettings,
    is_loopback,
)
from memproxy.settings.base import (
    FilePath,
    HttpAddress,
    Positive,
    Seconds,
    Section,
    Unit,
    expanded,
    http_address,
    plain_types,
)
from memproxy.settings.learning import (
    DedupSettings,
    EmbeddingSettings,
    LearnSettings,
    ModelSettings,
    ModelsSettings,
    RewriteModelSettings,
)
from memproxy.settings.limits import LimitsSettings, TenantLimits, UserLimits
from memproxy.settings.recalling import (
    MATCHING_STAGES,
    GateCategory,
    GateSettings,
    InjectSettings,
    KindName,
    RecallSettings,
    RecipeName,
    RewriteSettings,
    StageName,
    TierSettings,
    that_rank,
)
from memproxy.settings.storage import (
    PrivacySettings,
    PruneWeights,
    RetentionSettings,
    StateSettings,
    StoreSettings,
    TelemetrySettings,
    TenantRetention,
    WorkingSettings,
)

__all__ = [
    "MATCHING_STAGES",
    "OPENAI_BASE_URL",
    "AuthSettings",
    "ClaimNames",
    "DedupSettings",
    "EmbeddingSettings",
    "FilePath",
    "GateCategory",
    "GateSettings",
    "HttpAddress",
    "InjectSettings",
    "JwtSettings",
    "KindName",
    "LearnSettings",
    "LimitsSettings",
    "ModelSettings",
    "ModelsSettings",
    "Permission",
    "Positive",
    "PrivacySettings",
    "ProxyKeySettings",
    "PruneWeights",
    "RecallSettings",
    "RecipeName",
    "RetentionSettings",
    "RewriteModelSettings",
    "RewriteSettings",
    "Seconds",
    "Section",
    "ServerSettings",
    "Settings",
    "StageName",
    "StateSettings",
    "StoreSettings",
    "TelemetrySettings",
    "TenantLimits",
    "TenantRetention",
    "TierSettings",
    "Unit",
    "UpstreamRoute",
    "UpstreamSettings",
    "UserLimits",
    "WorkingSettings",
    "expanded",
    "http_address",
    "is_loopback",
    "plain_types",
    "that_rank",
]


class Settings(Section):
    """The whole configuration."""

    server: ServerSettings = ServerSettings()
    upstream: UpstreamSettings = UpstreamSettings()
    auth: AuthSettings = AuthSettings()
    limits: LimitsSettings = LimitsSettings()
    gate: GateSettings = GateSettings()
    rewrite: RewriteSettings = RewriteSettings()
    recall: RecallSettings = RecallSettings()
    inject: InjectSettings = InjectSettings()
    learn: LearnSettings = LearnSettings()
    dedup: DedupSettings = DedupSettings()
    models: ModelsSettings = ModelsSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    store: StoreSettings = StoreSettings()
    state: StateSettings = StateSettings()
    retention: RetentionSettings = RetentionSettings()
    privacy: PrivacySettings = PrivacySettings()
    working: WorkingSettings = WorkingSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
