import type { KeyRecord } from '../../../gateway/access/key-record.js'
import { planKeyChange, planKeyRemoval, type KeyFields, type Keys } from '../../../gateway/access/plan-keys.js'

export const nowMs = 1000
export const record = (id: number, fields: Partial<KeyRecord> = {}): KeyRecord => ({
  id,
  name: `key ${id}`,
  digest: '',
  prefix: '',
  addresses: [],
  scopes: ['*'],
  expiresAtMs: 0,
  disabled: false,
  containerUuids: [],
  createdAtMs: 0,
  parentId: 0,
  ...fields,
})
export const keysOf = (...records: KeyRecord[]): Map<number, KeyRecord> => new Map(records.map((key) => [key.id, key]))
export const change = (keys: Keys, callerId: number, id: number, fields: KeyFields) =>
  planKeyChange({ keys, callerId, target: keys.get(id)!, nowMs }, fields)
export const removal = (keys: Keys, callerId: number, id: number) =>
  planKeyRemoval({ keys, callerId, target: keys.get(id)!, nowMs })
