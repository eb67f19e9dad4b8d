import { expect } from 'chai'
import { retryStage, taskStages, undoStage } from '../../../shared/task-stages.js'
import { en } from '../i18n/en/index.ts'
import { zh } from '../i18n/zh/index.ts'
import { parseStage } from './parse-stage.ts'

const none = { amount: '', isUndo: false, isRetry: false }

describe('the stage of a task', () => {
  for (const [language, texts] of Object.entries({ en, zh }))
    it(`has a text in the language ${language}`, () => {
      const known = new Set(Object.keys(texts))
      expect(taskStages.filter((stage) => !known.has(`stage.${stage}`))).to.deep.equal([])
    })

  for (const [stage, expected] of [
    ['disk', { ...none, step: 'disk' }],
    ['memory: 12 MiB left, downtime 3 ms', { ...none, step: 'memory', amount: '12 MiB left, downtime 3 ms' }],
    [undoStage('disk'), { ...none, step: 'disk', isUndo: true }],
    [retryStage('disk'), { ...none, step: 'disk', isRetry: true }],
    ['', { ...none, step: '' }],
  ] as const)
    it(`is parsed from "${stage}"`, () => expect(parseStage(stage)).to.deep.equal(expected))
})
