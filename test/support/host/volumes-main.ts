import { pino } from 'pino'
import { openPool, type StorageConfig } from '../../../agent/storage/pool.js'
import { Trash } from '../../../agent/storage/trash.js'
import { Volumes } from '../../../agent/storage/volumes.js'

/*
 * Repeatedly replaces a volume with snapshots in turn, as a process that runs until a test kills it:
 * volumes-main.ts STORAGE-CONFIG-JSON GUEST SNAPSHOT…
 */

const [config = '', guest = '', ...snapshots] = process.argv.slice(2)
const pool = await openPool(JSON.parse(config) as StorageConfig)
const volumes = new Volumes(pool, new Trash(pool, pino({ level: 'silent' })))
process.stdout.write('begin\n')
for (;;) for (const snapshot of snapshots) await volumes.restore(guest, snapshot, 1024 ** 3)
