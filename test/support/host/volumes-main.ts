import { pino } from 'pino'
import { openPool, type StorageConfig } from '../../../agent/storage/pool.js'
import { Trash } from '../../../agent/storage/trash.js'
import { Volumes } from '../../../agent/storage/volumes.js'

/*
 * Replaces a guest's volume with each of the snapshots in turn, endlessly, until a test kills this process:
 * volumes-main.ts STORAGE-CONFIG-JSON GUEST SNAPSHOT…
 */

const [config = '', guest = '', ...snapshots] = process.argv.slice(2)
const pool = await openPool(JSON.parse(config) as StorageConfig)
const volumes = new Volumes(pool, new Trash(pool, pino({ level: 'silent' })))
process.stdout.write('begin\n')
for (;;) for (const snapshot of snapshots) await volumes.restore(guest, snapshot, 1024 ** 3)
