from temporalio import workflow
WORKFLOWS = []
