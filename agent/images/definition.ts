import { conflict } from '../../shared/errors.js'
import type { AcceptedOrder, OperationKind } from '../operations/orders.js'
import type { OperationDefinition, Step, Subject } from '../operations/types.js'
import type { PoolCapacity } from '../storage/pool.js'
import { checkFree } from '../storage/room.js'
import { unsupportedHere, type Images } from './images.js'

export interface ImageMakeInput {
  templateId: string
}

export function imageSubject({ id, name }: { id: string; name: string }): Subject {
  return { kind: 'image', id, name, number: 0 }
}

/** Defines the operation that creates an image before its first use. The agent itself starts the operation. */
export function imageBuildDefinition(images: Images): OperationDefinition<ImageMakeInput> {
  return { action: 'image_build', steps: [makeStep(images)] }
}

interface Parts {
  readonly images: Images
  readonly readDisk: () => Promise<PoolCapacity>
}

/** Defines the operation with which users create an image. Lists already show a queued image as downloading. */
export function imageDownloadKind({ images, readDisk }: Parts): OperationKind<'imageDownload', ImageMakeInput> {
  return {
    action: 'image_download',
    accept: async ({ templateId }): Promise<AcceptedOrder<ImageMakeInput>> => {
      const disk = await readDisk()
      return {
        subject: imageSubject({ id: templateId, name: images.find(templateId)?.name ?? '' }),
        input: { templateId },
        reserve: () => {
          checkMakeable(images, templateId)
          checkFree(disk)
          images.store.update(templateId, { ordered: true, failure: '' })
        },
      }
    },
    steps: [makeStep(images)],
    settle: ({ input: { templateId } }, outcome) => {
      if (!images.find(templateId)) return
      const failure = outcome.status === 'failed' ? outcome.code : ''
      images.store.update(templateId, { ordered: false, failure })
    },
  }
}

/** @throws {BerthError} `not_found`, `unsupported`, `image_present`, `task_running` if the image cannot be created */
function checkMakeable(images: Images, id: string): void {
  const template = images.get(id)
  if (template.unsupported !== '') throw unsupportedHere(template)
  if (template.downloading) throw conflict('task_running', 'the image is being downloaded')
  if (template.available) throw conflict('image_present', 'the image is already downloaded')
}

function makeStep(images: Images): Step<ImageMakeInput> {
  return {
    name: 'image',
    cancelable: () => true,
    run: (step) =>
      step.yieldWhile(
        images.ensure(step.input.templateId, (fraction, stage) => step.report(fraction, stage), step.signal),
      ),
    undo: ({ input }) => images.takeBack(input.templateId),
  }
}
