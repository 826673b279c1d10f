"""What messages, rows and settings mean that do not say more."""

from fencepost import controller
from tests.struct_defaults import Defaults, defaults_in

DEFAULTS: Defaults = {
    "acl_types.AclFilter": {"resource_type": 1, "pattern_type": 1, "operation": 1, "permission": 1},
    "acl_types.AclResult": {"error_code": 0},
    "acl_types.AclsDeleted": {"error_code": 0},
    "acls.AclState": {"changes": 0, "count": 0},
    "brokers.Endpoint": {"security_protocol": 0},
    "brokers.Heartbeat": {"want_fence": False, "want_shut_down": False},
    "brokers.HeartbeatStatus": {"cluster_version": -1, "agreed_ms": -1, "settings_digest": -1},
    "brokers.RegisterBroker": {"previous_epoch": -1},
    "config_changes.AlterConfigs": {"validate_only": False, "replaces_all": False},
    "config_changes.ConfigChange": {"operation": 0},
    "config_changes.ConfigsAltered": {"error_code": 0},
    "decision.Decision": {"throttle_ms": 0, "extra_cost": 0, "ends_entry": False},
    "feature_updates.FeatureUpdate": {"direction": 1},
    "feature_updates.UpdateFeatures": {"validate_only": False},
    "migration_phase.Migration": {"phase": 0, "floor": 0},
    "partition_creation.CreatePartitions": {"validate_only": False, "timeout_ms": 60000},
    "partition_creation.PartitionsCreated": {"error_code": 0},
    "partition_recovery.PartitionRecovered": {"reported_end": -1},
    "partition_recovery.RecoverPartition": {"dry_run": False},
    "producer_ids.ProducerIds": {"broker_id": -1, "broker_epoch": -1, "first": 0, "end": 0},
    "restoring.Found": {"producer_id_end": 0, "marker_version": 0, "coordinator_epoch": 0},
    "scram.ScramState": {"changes": 0, "count": 0},
    "scram_types.UserAltered": {"error_code": 0},
    "scram_types.UserDescribed": {"error_code": 0},
    "topic_configs.Setting": {"is_fixed": False},
    "topic_creation.Earlier": {"partitions": 0, "rows": 0},
    "topic_creation.TopicRules": {
        "partitions_default": 1,
        "replication_factor_default": 1,
        "allow_unreplicated": False,
        "delete_topics": True,
    },
    "topics.CreateTopics": {"validate_only": False, "timeout_ms": 60000},
    "topics.DeleteTopics": {"timeout_ms": 60000},
    "topics.NewTopic": {"partition_count": -1, "replication_factor": -1},
    "topics.Topic": {"partition_count": 0},
    "topics.TopicConfig": {"read_only": False, "sensitive": False, "kind": 0},
    "topics.TopicCreated": {"error_code": 0, "topic_id": 0, "partition_count": -1, "replication_factor": -1},
    "topics.TopicDeleted": {"topic_id": 0, "error_code": 0},
    "view.ImageHeader": {"version": 0, "controller_epoch": 0, "leader_id": -1},
    "voters.Quorum": {"kraft_version": 0},
}


def test_none_of_them_changes() -> None:
    assert defaults_in(controller) == DEFAULTS
