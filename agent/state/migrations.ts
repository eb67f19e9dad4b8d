/** SQL that turns a journal of version N (the index) into one of version N + 1. */
export const migrations: readonly string[] = [
  `CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
   CREATE TABLE guests (
     uuid TEXT PRIMARY KEY,
     id INTEGER NOT NULL UNIQUE,
     name TEXT NOT NULL UNIQUE COLLATE NOCASE,
     spec TEXT NOT NULL,              -- JSON, see guests/store.ts
     status TEXT NOT NULL,
     status_reason TEXT NOT NULL DEFAULT '',
     wanted TEXT NOT NULL CHECK (wanted IN ('running', 'stopped')),
     idmap_slot INTEGER NOT NULL UNIQUE,
     ipv4 TEXT NOT NULL UNIQUE,
     mac TEXT NOT NULL UNIQUE,
     login TEXT,                      -- sealed JSON {password?, publicKey?}
     initialized INTEGER NOT NULL DEFAULT 0,
     created_at_ms INTEGER NOT NULL,
     revision INTEGER NOT NULL
   ) STRICT;
   CREATE TABLE port_mappings (
     guest_uuid TEXT NOT NULL REFERENCES guests (uuid) ON DELETE CASCADE,
     position INTEGER NOT NULL,
     protocol TEXT NOT NULL CHECK (protocol IN ('tcp', 'udp')),
     host_port INTEGER NOT NULL,
     container_port INTEGER NOT NULL,
     description TEXT NOT NULL DEFAULT '',
     PRIMARY KEY (guest_uuid, position),
     UNIQUE (protocol, host_port)
   ) STRICT, WITHOUT ROWID;
   CREATE TABLE operations (
     id TEXT PRIMARY KEY,
     action TEXT NOT NULL,
     guest_uuid TEXT NOT NULL DEFAULT '',
     guest_id INTEGER NOT NULL DEFAULT 0,
     guest_name TEXT NOT NULL DEFAULT '',
     request_hash TEXT NOT NULL,
     input TEXT NOT NULL,             -- JSON
     status TEXT NOT NULL CHECK (status IN ('pending', 'running', 'done', 'failed', 'canceled')),
     step INTEGER NOT NULL DEFAULT 0, -- index of the step begun last
     undoing INTEGER NOT NULL DEFAULT 0,
     progress INTEGER NOT NULL DEFAULT 0,
     stage TEXT NOT NULL DEFAULT '',
     error_code TEXT NOT NULL DEFAULT '',
     error TEXT NOT NULL DEFAULT '',
     requested_by TEXT NOT NULL,
     created_at_ms INTEGER NOT NULL,
     started_at_ms INTEGER NOT NULL DEFAULT 0,
     finished_at_ms INTEGER NOT NULL DEFAULT 0,
     revision INTEGER NOT NULL
   ) STRICT;
   CREATE INDEX operations_open ON operations (created_at_ms) WHERE status IN ('pending', 'running');
   CREATE INDEX operations_revision ON operations (revision);
   CREATE TABLE images (
     template_id TEXT PRIMARY KEY,
     size_bytes INTEGER NOT NULL,
     built_at_ms INTEGER NOT NULL,
     revision INTEGER NOT NULL
   ) STRICT, WITHOUT ROWID;
   CREATE TABLE removed (
     revision INTEGER PRIMARY KEY,
     kind TEXT NOT NULL,
     key TEXT NOT NULL
   ) STRICT;`,
  // Stores the step's name with its index, because the index can mean another step in a later version of the agent.
  `ALTER TABLE operations ADD COLUMN step_name TEXT NOT NULL DEFAULT '';
   CREATE INDEX operations_finished ON operations (finished_at_ms) WHERE finished_at_ms > 0;`,
  `ALTER TABLE guests ADD COLUMN has_password INTEGER NOT NULL DEFAULT 0;`,
  // Guests are now initialized at their creation. An unreleased version initialized a guest at its first start. Guests
  // of that version that were never started stay uninitialized.
  `ALTER TABLE guests DROP COLUMN initialized;`,
  // UNIQUE cannot express that mappings overlap by range and by address, so network/ports.ts checks this.
  `ALTER TABLE guests ADD COLUMN firewall TEXT;          -- JSON; null: switched off
   ALTER TABLE guests ADD COLUMN traffic TEXT;           -- JSON; null: unlimited
   ALTER TABLE guests ADD COLUMN expires_at_ms INTEGER NOT NULL DEFAULT 0;
   ALTER TABLE guests ADD COLUMN expired INTEGER NOT NULL DEFAULT 0;
   ALTER TABLE guests ADD COLUMN over_quota INTEGER NOT NULL DEFAULT 0;
   CREATE INDEX guests_expiry ON guests (expires_at_ms) WHERE expires_at_ms > 0;
   CREATE TABLE port_mappings_new (
     guest_uuid TEXT NOT NULL REFERENCES guests (uuid) ON DELETE CASCADE,
     position INTEGER NOT NULL,       -- gives the order; may have gaps
     protocol TEXT NOT NULL CHECK (protocol IN ('tcp', 'udp')),
     host_ip TEXT NOT NULL,           -- '': every local address
     host_port INTEGER NOT NULL,
     host_port_end INTEGER NOT NULL,  -- = host_port for one
     container_port INTEGER NOT NULL,
     container_port_end INTEGER NOT NULL,
     description TEXT NOT NULL DEFAULT '',
     PRIMARY KEY (guest_uuid, position)
   ) STRICT, WITHOUT ROWID;
   INSERT INTO port_mappings_new
     SELECT guest_uuid, position, protocol, '', host_port, host_port, container_port, container_port, description
     FROM port_mappings;
   DROP TABLE port_mappings;
   ALTER TABLE port_mappings_new RENAME TO port_mappings;
   CREATE INDEX port_mappings_host ON port_mappings (protocol, host_ip, host_port, host_port_end);
   CREATE TABLE guest_addresses (
     address TEXT PRIMARY KEY,        -- canonical
     guest_uuid TEXT NOT NULL REFERENCES guests (uuid) ON DELETE CASCADE,
     family INTEGER NOT NULL CHECK (family IN (4, 6)),
     position INTEGER NOT NULL
   ) STRICT, WITHOUT ROWID;
   CREATE INDEX guest_addresses_guest ON guest_addresses (guest_uuid, family, position);
   CREATE TABLE ipv4_pool (
     address TEXT PRIMARY KEY,
     interface TEXT NOT NULL,
     prefix_len INTEGER NOT NULL,
     gateway TEXT NOT NULL DEFAULT ''
   ) STRICT, WITHOUT ROWID;
   CREATE TABLE ipv6_prefixes (
     prefix TEXT PRIMARY KEY,         -- network address
     prefix_len INTEGER NOT NULL,
     interface TEXT NOT NULL,
     address TEXT NOT NULL DEFAULT '',
     gateway TEXT NOT NULL DEFAULT ''
   ) STRICT, WITHOUT ROWID;
   CREATE TABLE traffic (
     guest_uuid TEXT PRIMARY KEY REFERENCES guests (uuid) ON DELETE CASCADE,
     period_start TEXT NOT NULL,      -- YYYY-MM-DD in the host's time zone
     rx_bytes INTEGER NOT NULL,
     tx_bytes INTEGER NOT NULL,
     counter_epoch TEXT NOT NULL,     -- another one: the counters were reset
     counter_rx INTEGER NOT NULL,     -- as read last
     counter_tx INTEGER NOT NULL
   ) STRICT, WITHOUT ROWID;
   CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
   CREATE TABLE done_settings (
     operation_id TEXT PRIMARY KEY,
     guest_uuid TEXT NOT NULL REFERENCES guests (uuid) ON DELETE CASCADE,
     done_at_ms INTEGER NOT NULL
   ) STRICT, WITHOUT ROWID;`,
  `ALTER TABLE traffic ADD COLUMN period_left TEXT NOT NULL DEFAULT ''; -- see traffic/period.ts`,
  `CREATE TABLE removed_operations (
     id TEXT PRIMARY KEY,
     request_hash TEXT NOT NULL,
     record TEXT NOT NULL,            -- JSON, see operations/removed.ts
     removed_at_ms INTEGER NOT NULL
   ) STRICT, WITHOUT ROWID;
   CREATE INDEX removed_operations_age ON removed_operations (removed_at_ms);`,
  // In older versions, operations without a guest were builds of images.
  `ALTER TABLE operations ADD COLUMN subject_kind TEXT NOT NULL DEFAULT 'guest';
   ALTER TABLE operations RENAME COLUMN guest_uuid TO subject_id;
   ALTER TABLE operations RENAME COLUMN guest_id TO subject_number;
   ALTER TABLE operations RENAME COLUMN guest_name TO subject_name;
   UPDATE operations SET subject_kind = 'image',
     subject_id = iif(json_valid(input), coalesce(json_extract(input, '$.templateId'), id), id)
     WHERE subject_id = '';
   UPDATE removed_operations SET record = json_remove(
     json_set(record, '$.subject', json_object(
       'kind', iif(json_extract(record, '$.guestUuid') = '', 'image', 'guest'),
       'id', json_extract(record, '$.guestUuid'),
       'name', json_extract(record, '$.guestName'),
       'number', json_extract(record, '$.guestId')
     )), '$.guestUuid', '$.guestName', '$.guestId');`,
  // Moves the fields that no SQL query uses to one JSON document. guests/record has defaults for missing fields.
  `UPDATE guests SET spec = json_set(spec,
     '$.hasPassword', json(iif(has_password = 1, 'true', 'false')),
     '$.expiresAtMs', expires_at_ms,
     '$.policy', json_object(
       'expired', json(iif(expired = 1, 'true', 'false')),
       'overQuota', json(iif(over_quota = 1, 'true', 'false'))
     ));
   UPDATE guests SET spec = json_set(spec, '$.firewall', json(firewall)) WHERE firewall IS NOT NULL;
   UPDATE guests SET spec = json_set(spec, '$.traffic', json(traffic)) WHERE traffic IS NOT NULL;
   DROP INDEX guests_expiry;
   ALTER TABLE guests DROP COLUMN has_password;
   ALTER TABLE guests DROP COLUMN firewall;
   ALTER TABLE guests DROP COLUMN traffic;
   ALTER TABLE guests DROP COLUMN expires_at_ms;
   ALTER TABLE guests DROP COLUMN expired;
   ALTER TABLE guests DROP COLUMN over_quota;`,
  `ALTER TABLE images ADD COLUMN enabled INTEGER NOT NULL DEFAULT 1;
   ALTER TABLE images ADD COLUMN ordered INTEGER NOT NULL DEFAULT 0; -- an operation to make it is open
   ALTER TABLE images ADD COLUMN making INTEGER NOT NULL DEFAULT 0;
   ALTER TABLE images ADD COLUMN failure TEXT NOT NULL DEFAULT '';   -- code, of the last attempt to make it
   ALTER TABLE images ADD COLUMN definition TEXT;                    -- JSON of a custom one; null: of the catalogue`,
  `CREATE TABLE alerts (
     id TEXT PRIMARY KEY,
     guest_uuid TEXT NOT NULL,        -- kept when the guest is gone
     last_at_ms INTEGER NOT NULL,
     alert TEXT NOT NULL,             -- JSON, see abuse/plan-merge.ts
     samples TEXT NOT NULL,           -- JSON of flow rows
     revision INTEGER NOT NULL
   ) STRICT, WITHOUT ROWID;
   CREATE INDEX alerts_revision ON alerts (revision);
   CREATE INDEX alerts_age ON alerts (last_at_ms);
   CREATE INDEX alerts_guest ON alerts (guest_uuid, last_at_ms);`,
  // Only guests that have taken part in a move have a row. The row stays after the guest has left the host.
  `CREATE TABLE guest_owners (
     guest_uuid TEXT PRIMARY KEY,
     role TEXT NOT NULL,              -- see guests/ownership/plan-ownership.ts
     generation INTEGER NOT NULL,
     move_id TEXT NOT NULL,
     details TEXT NOT NULL            -- JSON of the move, see guests/moves
   ) STRICT, WITHOUT ROWID;`,
  `ALTER TABLE operations ADD COLUMN downtime_ms INTEGER NOT NULL DEFAULT 0; -- pause of a guest in its live move`,
  `CREATE TABLE imports (
     id TEXT PRIMARY KEY,
     name TEXT NOT NULL,
     source TEXT NOT NULL,            -- JSON, see imports/import-store.ts
     spec TEXT NOT NULL,              -- JSON of the message GuestSpec
     state TEXT NOT NULL,
     message TEXT NOT NULL,
     revision INTEGER NOT NULL
   ) STRICT, WITHOUT ROWID;`,
  `CREATE TABLE standby_copies (
     guest_uuid TEXT PRIMARY KEY,     -- the guest is on another host
     standby_id TEXT NOT NULL,
     from_host_id TEXT NOT NULL,
     disk_gb INTEGER NOT NULL,
     received TEXT NOT NULL,          -- JSON, see guests/record/copy-journal.ts
     firewall TEXT NOT NULL,          -- empty, or see guests/snapshots/backup-settings.ts
     removing INTEGER NOT NULL
   ) STRICT, WITHOUT ROWID;`,
  `ALTER TABLE operations ADD COLUMN moved INTEGER NOT NULL DEFAULT 0; -- 1: it ran on a former host of the guest
   CREATE TABLE received_history (
     transfer_id TEXT NOT NULL,       -- id of the move or the standby
     guest_uuid TEXT NOT NULL,        -- the guest is on another host
     kind TEXT NOT NULL,              -- see moved-history/received-history.ts
     key TEXT NOT NULL,
     at_ms INTEGER NOT NULL,
     value TEXT NOT NULL,
     PRIMARY KEY (transfer_id, kind, key)
   ) STRICT, WITHOUT ROWID;`,
]

/**
 * After the rollback of an upgrade, an older agent finds a journal of this version. The older agent can use the journal
 * if its own journal version is at least this number. A migration that changes or removes anything must raise the
 * number (see docs/design/delivery.md).
 */
export const readableSince = 11
