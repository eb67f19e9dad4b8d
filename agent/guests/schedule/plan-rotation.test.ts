import { expect } from 'chai'
import { planRotation, type RetainedCopy } from './plan-rotation.js'

/**
 * Parses words: `h` is a manual snapshot, `s` a scheduled snapshot. A following `t` means that the snapshot is being
 * taken, `d` that it is being deleted. The id is the position in the text.
 */
function keptOf(text: string): RetainedCopy[] {
  return text.split(' ').flatMap((word, index) => {
    if (word === '') return []
    const state = word.endsWith('t') ? 'taking' : word.endsWith('d') ? 'deleting' : 'ready'
    return [{ id: String(index), scheduled: word.startsWith('s'), state }]
  })
}

describe('the rotation of snapshots before a scheduled snapshot', () => {
  for (const [name, snapshots, limit, retention, expected] of [
    ['drops nothing for the first snapshot', '', 5, 0, ''],
    ['drops nothing if there are fewer snapshots than quota and retention permit', 'h s s', 5, 4, ''],
    ['drops the oldest snapshot if the quota is full', 's s s s s', 5, 0, '0'],
    [
      'drops the oldest scheduled snapshot if there are as many scheduled snapshots as the retention permits',
      'h s s s',
      10,
      3,
      '1',
    ],
    ['drops as many snapshots as the stricter of quota and retention requires', 's s s s h', 5, 2, '0 1 2'],
    ['drops several snapshots if the retention became smaller', 's s s s s', 10, 1, '0 1 2 3 4'],
    ['drops several snapshots if the quota became smaller', 's s s h s', 3, 0, '0 1 2'],
    ['never drops a manual snapshot', 'h h s h h', 5, 0, '2'],
    ['finds no room for a new snapshot if manual snapshots fill the quota', 'h h h h h', 5, 0, 'none'],
    ['finds no room if manual snapshots fill the quota, and drops no scheduled snapshots', 'h h h s s', 3, 0, 'none'],
    ['finds no room for a new snapshot if the quota is 0', 's s', 0, 0, 'none'],
    ['does not count a snapshot that is being deleted', 'h h h h hd', 5, 0, ''],
    ['counts a snapshot that is being taken', 's h h h ht', 5, 0, '0'],
    ['does not drop incomplete snapshots', 'st sd s h h', 4, 1, '2'],
  ] as const)
    it(name, () => {
      const { hasRoom, dropped } = planRotation({ kept: keptOf(snapshots), limit, retention })
      expect(hasRoom ? dropped.join(' ') : 'none').to.equal(expected)
    })
})
