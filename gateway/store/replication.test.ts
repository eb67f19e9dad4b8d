import { expect } from 'chai'
import { parseReplication } from './replication.js'

const slave = (index: number, state: string, offset: number): string =>
  `slave${index}:ip=127.0.0.1,port=7002,state=${state},offset=${offset},lag=0`

describe('the parser of the number and lag of Redis replicas', () => {
  const cases: [string, string[], object][] = [
    [
      'returns 0 replicas and a lag of 0 for a server without replicas',
      ['role:master', 'connected_slaves:0', 'master_repl_offset:0'],
      { replicas: 0, lagBytes: 0 },
    ],
    [
      'returns the lag of the replica that is furthest behind the master',
      ['role:master', slave(0, 'online', 900), slave(1, 'online', 400), 'master_repl_offset:1000'],
      { replicas: 2, lagBytes: 600 },
    ],
    [
      'does not count a replica that is still loading the data from the master',
      ['role:master', slave(0, 'send_bulk', 0), slave(1, 'online', 1000), 'master_repl_offset:1000'],
      { replicas: 1, lagBytes: 0 },
    ],
    [
      'returns a lag of 0 if a replica reports a newer offset than its master',
      [slave(0, 'online', 10), 'master_repl_offset:5'],
      { replicas: 1, lagBytes: 0 },
    ],
  ]
  for (const [name, lines, expected] of cases)
    it(name, () => expect(parseReplication(['# Replication', ...lines, ''].join('\r\n'))).to.deep.equal(expected))
})
