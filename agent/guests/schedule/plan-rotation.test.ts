import { expect } from 'chai'
import { planRotation, type RetainedCopy } from './plan-rotation.js'

/**
 * Parses words: `h` is a manual snapshot, `s` a scheduled one. A following `t` means that it is being taken, `d` that
 * it is being deleted. The id is the position in the text.
 */
function keptOf(text: string): RetainedCopy[] {
  return text.split(' ').flatMap((word, index) => {
    if (word === '') return []
    const state = word.endsWith('t') ? 'taking' : word.endsWith('d') ? 'deleting' : 'ready'
    return [{ id: String(index), scheduled: word.startsWith('s'), state }]
  })
}

describe('rotation of scheduled snapshots', () => {
  for (const [name, snapshots, limit, retention, expected] of [
    ['the first', '', 5, 0, ''],
    ['below quota and retention', 'h s s', 5, 4, ''],
    ['the quota is full: the oldest', 's s s s s', 5, 0, '0'],
    ['the retention is full: the oldest', 'h s s s', 10, 3, '1'],
    ['both: the one that drops more', 's s s s h', 5, 2, '0 1 2'],
    ['a retention that became smaller', 's s s s s', 10, 1, '0 1 2 3 4'],
    ['a quota that became smaller', 's s s h s', 3, 0, '0 1 2'],
    ['never a manual one', 'h h s h h', 5, 0, '2'],
    ['only manual snapshots: no space', 'h h h h h', 5, 0, 'none'],
    ['more manual ones than the quota: none is dropped', 'h h h s s', 3, 0, 'none'],
    ['no quota: no space', 's s', 0, 0, 'none'],
    ['one that is being deleted frees a place', 'h h h h hd', 5, 0, ''],
    ['one that is being taken needs a place', 's h h h ht', 5, 0, '0'],
    ['incomplete ones are not dropped', 'st sd s h h', 4, 1, '2'],
  ] as const)
    it(name, () => {
      const { hasRoom, dropped } = planRotation({ kept: keptOf(snapshots), limit, retention })
      expect(hasRoom ? dropped.join(' ') : 'none').to.equal(expected)
    })
})
