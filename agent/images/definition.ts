import type { OperationDefinition, Subject } from '../operations/types.js'

export interface ImageBuildInput {
  templateId: string
}

export function imageSubject({ id, name }: { id: string; name: string }): Subject {
  return { kind: 'image', id, name, number: 0 }
}

interface Builder {
  ensure(
    templateId: string,
    report: (fraction: number, stage: string) => void,
    signal: AbortSignal,
  ): Promise<void>
}

/** Building an image ahead of its first use, as a task of its own. */
export function imageBuildDefinition(images: Builder): OperationDefinition<ImageBuildInput> {
  return {
    action: 'image_build',
    steps: [
      {
        name: 'image',
        run: (step) =>
          step.yieldWhile(
            images.ensure(
              step.input.templateId,
              (fraction, stage) => step.report(fraction, stage),
              step.signal,
            ),
          ),
      },
    ],
  }
}
